"""The only place where real parts are wired together. Everything is made once a process, on first use."""

import logging
import os
import time
import uuid
from collections.abc import Iterable
from functools import cached_property, lru_cache
from types import ModuleType
from typing import TYPE_CHECKING

from pydantic import SecretStr

from deckhand.agent.budget import Budget
from deckhand.agent.conductor import HttpConductor
from deckhand.agent.gateway import Endpoint, HttpGateway
from deckhand.agent.tools import OperationTools
from deckhand.domain.access import Access, Sees
from deckhand.domain.allowance import Allowance
from deckhand.domain.errors import NotAllowed
from deckhand.domain.policy_document import PolicyDocument
from deckhand.domain.principal import Channel, Principal
from deckhand.edge.app import App, Route
from deckhand.edge.auth import Authenticator
from deckhand.edge.auth import Sessions as SessionCookies
from deckhand.edge.chat import ChatRoutes
from deckhand.edge.direct import DirectChat
from deckhand.edge.live import EventLoopThread
from deckhand.edge.operation_routes import routes
from deckhand.edge.proposals import ProposalRoutes
from deckhand.edge.public import public_routes
from deckhand.edge.rate import RateLimit
from deckhand.edge.request import Request
from deckhand.edge.secrets import resolve
from deckhand.edge.shapes import ChatStatus
from deckhand.edge.telemetry import Telemetry
from deckhand.edge.turn_answer import TurnAnswers
from deckhand.operations.caller import Caller
from deckhand.operations.catalog import CARD_FAMILIES, CONVERSATION_FAMILIES, IDENTITY_FAMILIES, REGISTRY
from deckhand.operations.permission import offered
from deckhand.policy.engine import Engine
from deckhand.policy.groups import CHAT
from deckhand.push.addresses import addresses
from deckhand.push.service import PushService
from deckhand.settings import Settings, read_settings
from deckhand.storage.policies import Policies
from deckhand.storage.port import ItemStore, Table
from deckhand.storage.queue import JobQueue
from deckhand.storage.rates import Rates
from deckhand.storage.reports import BucketReports, FolderReports, Reports
from deckhand.storage.sessions import Sessions
from deckhand.storage.tokens import Tokens
from deckhand.turns.chat import Chats, ChatSettings
from deckhand.turns.context import Pace, TurnContext
from deckhand.turns.decision import Decisions
from deckhand.turns.metering import Metering
from deckhand.turns.waking import Waking

if TYPE_CHECKING:
    from deckhand.edge.jobs import JobWorker
    from deckhand.edge.sweeper import Sweeper
    from deckhand.push.delivery import Delivery

TENANT = "main"
"""Whose deployment this is: who signs in here belongs to it."""
# A local file costs nothing to write and nothing to look at.
LOCAL_PACE = Pace(flush_first=0.05, flush_grown=0.05, poll_first=0.03, poll_grown=0.1, watch=0.25)


logger = logging.getLogger(__name__)


def new_id() -> str:
    return uuid.uuid4().hex


class Parts:
    """All parts of one process, made from settings."""

    def __init__(self, settings: Settings, *, store: ItemStore | None = None) -> None:
        self.settings = settings
        self._given_store = store

    def now(self) -> float:
        """Epoch seconds. The job queue keeps the machine's own time, as in the cloud."""
        return time.time() + self.settings.deckhand_clock_offset_s

    @cached_property
    def store(self) -> ItemStore:
        if self._given_store is not None:
            return self._given_store
        if self.settings.deckhand_sqlite:
            from deckhand.storage.sqlite import SqliteStore

            return SqliteStore(self.settings.deckhand_sqlite, now=self.now)
        from deckhand.storage.dynamodb import DynamoStore, connect

        tables: dict[Table, str] = {
            "deck": self.settings.deck_table,
            "turns": self.settings.turns_table,
            "identity": self.settings.identity_table,
        }
        return DynamoStore(connect(endpoint_url=self.settings.dynamodb_endpoint), tables, now=self.now)

    @cached_property
    def turns(self) -> TurnContext:
        pace = LOCAL_PACE if self.settings.deckhand_sqlite else Pace()
        return TurnContext.on(self.store, now=self.now, new_id=new_id, jobs=self.jobs, pace=pace)

    @cached_property
    def jobs(self) -> JobQueue:
        if self.settings.deckhand_sqlite:
            from deckhand.storage.sqlite_queue import SqliteQueue

            return SqliteQueue(self.settings.deckhand_sqlite, now=time.time)
        from deckhand.storage.sqs import SqsQueue

        return SqsQueue(self.settings.jobs_queue_url, endpoint=self.settings.sqs_endpoint)

    def reports(self, tenant: str) -> Reports:
        if self.settings.deckhand_reports:
            return FolderReports(self.settings.deckhand_reports)
        return BucketReports(self.settings.reports_bucket, f"{tenant}/reports/", endpoint=self.settings.s3_endpoint)

    @cached_property
    def gateway(self) -> HttpGateway | None:
        settings = self.settings
        if settings.chat_endpoint_url is None:
            return None
        endpoint = Endpoint(
            url=settings.chat_endpoint_url,
            api_key=lambda: _secret(settings.chat_api_key),
            model=settings.chat_model,
            prompt_cache=settings.chat_prompt_cache,
        )
        return HttpGateway(endpoint, new_id=new_id)

    @cached_property
    def chats(self) -> Chats | None:
        settings = self.settings
        if self.gateway is None:
            return None
        return Chats(
            self.turns,
            self.gateway,
            settings=ChatSettings(
                agent_name=settings.chat_agent_name,
                base_prompt=settings.health_system_prompt,
                cache=settings.chat_prompt_cache,
                window_chars=settings.chat_window_chars,
                profile=settings.chat_prompt_profile,
                proposal_s=settings.chat_proposal_ttl_ms / 1000,
                budget=Budget(
                    steps=settings.chat_max_turns,
                    idle_s=settings.chat_iter_timeout_ms / 1000 or None,
                    turn_s=settings.chat_turn_deadline_ms / 1000 or None,
                ),
            ),
            caller_for=lambda principal: self.caller(principal, "direct" if principal.kind == "service" else "chat"),
            toolbox_for=lambda caller, gate: OperationTools(
                offered(caller, REGISTRY.tools(settings.chat_prompt_profile)), caller, gate
            ),
            decisions=self.decisions,
            watcher=Telemetry(debug=settings.health_debug),
            monotonic=time.monotonic,
            metering=self.metering,
        )

    @cached_property
    def waking(self) -> Waking | None:
        """None while no conductor, or no gateway, is configured."""
        settings, gateway = self.settings, self.gateway
        if settings.chat_conductor_url is None or settings.chat_endpoint_url is None or gateway is None:
            return None
        conductor = HttpConductor(
            settings.chat_conductor_url,
            token=lambda: _secret(settings.chat_conductor_token),
            pod=settings.chat_conductor_pod,
        )
        return Waking(
            self.turns,
            conductor,
            cooldown_s=settings.chat_conductor_cooldown_s,
            endpoint=settings.chat_endpoint_url,
            pinned=gateway.pinned,
            has_key=lambda: bool(_secret(settings.chat_api_key)),
        )

    @cached_property
    def metering(self) -> Metering:
        settings = self.settings
        if settings.allowance.cost is not None and settings.chat_prices.find(settings.chat_model) is None:
            logger.warning("CHAT_DAILY_COST_USD limits nothing: CHAT_PRICES has no price for CHAT_MODEL")
        return Metering(
            self.turns,
            allowance_of=self.allowance,
            # Not the person's own, which they may move: a day is a day.
            zone_of=lambda _: settings.zone,
            prices=settings.chat_prices,
            model=settings.chat_model,
        )

    def allowance(self, principal: Principal) -> Allowance:
        """What a principal may use a day: the same for everybody."""
        return self.settings.allowance

    def caller(self, principal: Principal, channel: Channel) -> Caller:
        return Caller(
            principal=principal,
            channel=channel,
            policy=self.policy,
            store=self.store,
            jobs=self.jobs,
            reports=self.reports(principal.tenant),
            now=self.now,
            new_id=new_id,
            default_zone=self.settings.zone,
            allowance=self.allowance(principal),
            push=self.push,
        )

    @cached_property
    def decisions(self) -> Decisions:
        return Decisions(self.turns, self.caller)

    @cached_property
    def policy(self) -> Engine:
        def find(tenant: str) -> PolicyDocument | None:
            return Policies(self.store, tenant).current()

        return Engine(find, confirm_writes=self.settings.confirm_writes, monotonic=time.monotonic)

    @property
    def authenticator(self) -> Authenticator:
        """Made anew each time: a secret in the Parameter Store may change."""
        return Authenticator(
            _secret(self.settings.agent_api_token),
            _secret(self.settings.deckhand_admin_token),
            tokens=self.tokens,
            sessions=self.session_cookies,
        )

    @cached_property
    def session_cookies(self) -> SessionCookies:
        return SessionCookies(self.sessions.principal, self.settings.deckhand_origins)

    @cached_property
    def sessions(self) -> Sessions:
        return Sessions(self.store, now=self.now, new_id=new_id)

    @cached_property
    def tokens(self) -> Tokens:
        return Tokens(self.store, now=self.now, new_id=new_id)

    @cached_property
    def rate(self) -> RateLimit:
        rates = Rates(self.store, now=self.now, new_id=new_id)
        return RateLimit(rates, self.settings.deckhand_rate_per_minute)

    def authenticate(self, request: Request) -> Principal:
        return self.rate.admit(self.authenticator.principal(request))

    def operator(self, request: Request) -> Principal:
        return self.rate.admit(self.authenticator.operator(request))

    def chat_app(self) -> App:
        settings = self.settings
        status: ChatStatus = {
            "configured": settings.chat_configured,
            "agent": {"name": settings.chat_agent_name, "emoji": settings.chat_agent_emoji},
            "demo": settings.deckhand_demo,
        }
        thread = EventLoopThread()
        answers = TurnAnswers(self.turns, thread)
        direct = DirectChat(
            context=self.turns,
            chats=self.chats,
            waking=self.waking,
            thread=thread,
            secret=lambda: _secret(settings.chat_api_token),
            limit=settings.chat_max_concurrent,
            admit=lambda principal: self._may_chat(self.rate.admit(principal), "direct"),
        )
        chat = ChatRoutes(
            context=self.turns,
            chats=self.chats,
            answers=answers,
            direct=direct,
            authenticate=self._chatting,
            sees=self._sees,
            operator=self.operator,
            status=status,
        )
        proposals = ProposalRoutes(
            context=self.turns,
            chats=self.chats,
            decisions=self.decisions,
            answers=answers,
            authenticate=self._chatting,
            sees=self._sees,
        )
        return App([*chat.routes(), *proposals.routes()])

    def _chatting(self, request: Request) -> Principal:
        """Who asks, where they may chat. Raises `NotAllowed` and what `authenticate` raises."""
        return self._may_chat(self.authenticate(request), "api")

    def _may_chat(self, principal: Principal, channel: Channel) -> Principal:
        if self.policy.decide(Access(principal, CHAT, channel, mutates=False, destructive=False)).verdict != "allow":
            raise NotAllowed()
        return principal

    def _sees(self, principal: Principal) -> Sees:
        """In which of their conversations they may chat."""
        return self.policy.sees(Access(principal, CHAT, "api", mutates=False, destructive=False), "conversation")

    def job_worker(self) -> "JobWorker":
        from deckhand.edge.jobs import JobWorker

        return JobWorker(
            context=self.turns,
            chats=self.chats,
            gateway=self.gateway,
            metering=self.metering,
            thread=EventLoopThread(),
            deliver_push=lambda job, *, last: self.push_delivery(job, last=last),
        )

    def sweeper(self) -> "Sweeper":
        from deckhand.edge.sweeper import Sweeper

        return Sweeper(self.store, self.jobs, default_zone=self.settings.zone, now=self.now, new_id=new_id)

    @cached_property
    def push(self) -> PushService:
        settings = self.settings
        return PushService(
            key=lambda: _secret(settings.deckhand_vapid_key),
            resolve=addresses,
            allow_loopback=settings.deckhand_push_allow_loopback,
        )

    @cached_property
    def push_delivery(self) -> "Delivery":
        """Made on the first push: what it needs takes long to import."""
        from deckhand.push.delivery import Delivery
        from deckhand.push.sender import Sender

        sender = Sender(
            key=self.push.key,
            subject=self.settings.deckhand_vapid_subject,
            resolve=self.push.resolve,
            # What is signed is judged by the clocks of others, so that no offset belongs there.
            now=time.time,
            allow_loopback=self.push.allow_loopback,
        )
        return Delivery(
            store=self.store,
            send=sender,
            now=self.now,
            new_id=new_id,
            default_zone=self.settings.zone,
            origin=self.settings.deckhand_origins[0] if self.settings.deckhand_origins else "",
        )

    def conversations_app(self) -> App:
        return App([*self._routes(CONVERSATION_FAMILIES), *public_routes(self.settings)])

    def manifests_app(self) -> App:
        return App(self._routes(CARD_FAMILIES))

    def identity_app(self) -> App:
        return App([*self._sign_in_routes(), *self._routes(IDENTITY_FAMILIES)])

    def _sign_in_routes(self) -> list[Route]:
        from deckhand.edge.enrolment import Enrolments
        from deckhand.edge.identity import IdentityRoutes
        from deckhand.edge.passkeys import Passkeys
        from deckhand.edge.session_opening import SessionOpening
        from deckhand.edge.sign_in import SignIns
        from deckhand.storage.accounts import Accounts
        from deckhand.storage.attempts import Attempts
        from deckhand.storage.challenges import Challenges
        from deckhand.storage.endings import Endings
        from deckhand.storage.invites import Invites
        from deckhand.storage.subscriptions import Subscriptions

        store, now, tenant = self.store, self.now, TENANT
        passkeys = Passkeys(self.settings.deckhand_origins)
        accounts = Accounts(store, tenant, new_id=new_id)
        challenges = Challenges(store, tenant, now=now, new_id=new_id)
        attempts = Attempts(store, tenant, now=now, new_id=new_id)
        opening = SessionOpening(tenant, accounts, self.sessions, now=now, random=os.urandom)
        enrolments = Enrolments(
            passkeys,
            accounts,
            challenges,
            Invites(store, tenant, new_id=new_id),
            Endings(store, now=now),
            opening,
            first_code=lambda: _secret(self.settings.deckhand_enrol_code),
            new_id=new_id,
        )
        sign_ins = SignIns(passkeys, accounts, challenges, attempts, opening)
        routes = IdentityRoutes(
            enrolments,
            sign_ins,
            attempts,
            self.session_cookies,
            authenticate=lambda request: self.authenticator.principal(request),
            forget_device=lambda principal, endpoint: Subscriptions(store, principal.tenant).drop(
                principal.user, endpoint
            ),
        )
        return routes.routes()

    def _routes(self, families: Iterable[ModuleType]) -> list[Route]:
        modules = {family.__name__ for family in families}
        return routes(
            [operation for operation in REGISTRY.all() if operation.run.__module__ in modules],
            authenticate=self.authenticate,
            admin=self.operator,
            caller=lambda principal: self.caller(principal, "api"),
        )


def _secret(value: SecretStr | None) -> str | None:
    return resolve(value.get_secret_value() if value else None)


@lru_cache(maxsize=1)
def parts() -> Parts:
    """The parts of this process, from its environment."""
    # The runtime client prints what reaches the root logger, a second time.
    logging.getLogger("deckhand").propagate = False
    return Parts(read_settings(os.environ))
