"""A warm parent process: it imports a handler once, then forks workers that are ready at once.

`python -m infra.local.zygote <control fd> <handler> [module to load as well]…`. Control messages are JSON lines.
In: `{"fork": id, "address": host:port}`, `{"kill": id}`.
Out: `{"ready": true}` or `{"failed": sentence}`, then `{"started": id, "pid": n}` and `{"ended": id, "status": n}`.

Nothing may outlive whoever started it, even after kill -9: the zygote ends its workers when the control socket closes,
and each worker ends itself when the zygote's pipe closes.
"""

import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import threading
import traceback
from typing import Any, NoReturn


class Zygote:
    """The parent's loop. It stays single-threaded and opens nothing that a child could not share."""

    def __init__(self, control: socket.socket, handler: str) -> None:
        self._control = control
        self._handler = handler
        self._workers: dict[int, int] = {}  # process id -> worker id
        self._life_read, self._life_write = os.pipe()
        self._wake_read, self._wake_write = os.pipe()
        for end in (self._wake_read, self._wake_write):
            os.set_blocking(end, False)

    def run(self) -> None:
        """Until the control socket closes."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        selector = selectors.DefaultSelector()
        selector.register(self._control, selectors.EVENT_READ)
        selector.register(self._wake_read, selectors.EVENT_READ)
        self._tell({"ready": True})
        pending = b""
        while True:
            for key, _ in selector.select():
                if key.fileobj is not self._control:
                    os.read(self._wake_read, 4096)
                    self._reap()
                    continue
                data = self._control.recv(65536)
                if not data:
                    return
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    self._obey(json.loads(line))

    def end_workers(self) -> None:
        for process in self._workers:
            os.kill(process, signal.SIGKILL)
        for process in self._workers:
            os.waitpid(process, 0)

    def _obey(self, order: dict[str, Any]) -> None:
        if "kill" in order:
            for process, worker in self._workers.items():
                if worker == order["kill"]:
                    os.kill(process, signal.SIGKILL)  # not reaped yet, so the id is still its own
            return
        process = os.fork()
        if process == 0:
            self._be_worker(order["address"])
        self._workers[process] = order["fork"]
        self._tell({"started": order["fork"], "pid": process})

    def _reap(self) -> None:
        for process in tuple(self._workers):
            done, status = os.waitpid(process, os.WNOHANG)
            if done:
                self._tell({"ended": self._workers.pop(process), "status": os.waitstatus_to_exitcode(status)})

    def _tell(self, message: dict[str, Any]) -> None:
        self._control.sendall(json.dumps(message).encode() + b"\n")

    def _be_worker(self, address: str) -> NoReturn:
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._control.close()
            for end in (self._life_write, self._wake_read, self._wake_write):
                os.close(end)
            threading.Thread(target=_end_with, args=(self._life_read,), daemon=True).start()
            os.environ["AWS_LAMBDA_RUNTIME_API"] = address
            # Only here: the official client reads the address when it is loaded.
            from deckhand.edge import runtime

            runtime.main(["runtime", self._handler])
        except SystemExit as ending:
            status = ending.code if isinstance(ending.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)


def _end_with(life: int) -> None:
    """Ends this process when the other end of `life` is closed, which only the parent holds."""
    os.read(life, 1)
    os._exit(1)


def main(control_fd: int, handler: str, *preloads: str) -> None:
    control = socket.socket(fileno=control_fd)
    control.set_inheritable(False)
    sys.path.insert(0, os.environ["LAMBDA_TASK_ROOT"])
    try:
        importlib.import_module(handler.rpartition(".")[0].replace("/", "."))
    except Exception as error:
        traceback.print_exc()
        sentence = f"{type(error).__name__}: {error}".replace("\n", " ")
        control.sendall(json.dumps({"failed": sentence}).encode() + b"\n")
        sys.exit(1)
    for module in preloads:
        importlib.import_module(module)
    gc.freeze()  # keeps shared pages shared: the collector would write to each of them
    zygote = Zygote(control, handler)
    try:
        zygote.run()
    except ConnectionError:
        pass  # whoever held the other end is gone
    finally:
        zygote.end_workers()


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
