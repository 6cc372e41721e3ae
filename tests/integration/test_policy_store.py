"""Policy documents on each engine: of two who write at once one comes first, and every version stays."""

from functools import partial

from deckhand.domain.errors import StaleVersion
from deckhand.storage.policies import Policies
from tests.faults import World
from tests.integration.test_contention import at_once
from tests.policies import document
from tests.stores import new_token


def test_of_eight_who_replace_one_version_one_does(any_world: World) -> None:
    policies = Policies(any_world.store, new_token())
    policies.put(document("// first"), token=new_token())

    def replace(number: int) -> int:
        policies.put(document(f"// by {number}", version=2), token=new_token())
        return number

    told = at_once([partial(replace, number) for number in range(8)])
    winners = [one for one in told if isinstance(one, int)]
    assert [one for one in told if not isinstance(one, int | StaleVersion)] == []
    current = policies.current()
    assert len(winners) == 1
    assert current is not None
    assert (current.version, current.policy) == (2, f"// by {winners[0]}")
    assert [policies.version(n) for n in (1, 2, 3)] == [document("// first"), current, None]


def test_tenants_have_documents_of_their_own(any_world: World) -> None:
    one, two = new_token(), new_token()
    Policies(any_world.store, one).put(document("// one"), token=new_token())
    assert Policies(any_world.store, two).current() is None
