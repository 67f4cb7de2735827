from __future__ import annotations

import subprocess
import sys
import threading
import time
from decimal import Decimal
from fractions import Fraction
from typing import Any, Callable

import numpy as np
import pytest

from fleetmetrics import comm as fc
from fleetmetrics.comm import channel, choose
from fleetmetrics.comm.backends import get_dist_backend, list_all_backends
from fleetmetrics.comm.choose import resolve
from fleetmetrics.comm.deadline import resolve_timeout
from fleetmetrics.comm.job import Job, split_endpoint
from fleetmetrics.errors import (
    CommunicatorError,
    IntegerOverflowError,
    InvalidInputError,
    NoChannelError,
    ServerProcessError,
)
from tests.distributed.cluster import PATIENCE, free_ports

TWO = {
    "PADDLE_TRAINERS_NUM": "2",
    "PADDLE_TRAINER_ID": "0",
    "PADDLE_TRAINER_ENDPOINTS": "10.0.0.1:8500,10.0.0.2:8501",
}


def test_no_launcher_is_one_worker() -> None:
    assert Job.from_environment({}) == Job()
    assert fc.get_communicator().world_size == 1
    assert fc.get_communicator() is fc.get_communicator()


@pytest.mark.parametrize(
    "first",
    [fc.get_communicator, fc.SocketCommunicator, lambda: fc.get_communicator().among([0, 1])],
    ids=["automatic", "explicit", "of a group"],
)
def test_threads_whose_first_calls_run_at_once_share_one_end(
    monkeypatch: pytest.MonkeyPatch, first: Callable[[], Any]
) -> None:
    """The second end of one process would be a second process that claims its rank."""
    made = []

    class SlowServer(channel.Server):
        def __init__(self, job: Job) -> None:
            made.append(job)
            time.sleep(0.2)
            super().__init__(job)

    monkeypatch.setattr(channel, "Server", SlowServer)
    monkeypatch.setattr(choose, "_automatic", None)
    endpoint = f"127.0.0.1:{free_ports(1)[0]}"
    environment = {"PADDLE_TRAINERS_NUM": "3", "PADDLE_TRAINER_ID": "0", "FLEETMETRICS_ENDPOINT": endpoint}
    environment["FLEETMETRICS_RUN"] = "a test's"
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(first())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0]._end is found[1]._end and len(made) == len(set(made))


def test_a_parameter_server_job_uses_the_first_endpoint_first() -> None:
    servers = {"TRAINING_ROLE": "TRAINER", "PADDLE_PSERVERS_IP_PORT_LIST": "10.0.0.3:9000"}
    job = Job.from_environment({**TWO, **servers, "PADDLE_TRAINER_ID": "1"})
    assert (job.rank, job.world_size) == (1, 2)
    assert job.candidates()[0] == ("10.0.0.1", 8500)
    assert len(job.candidates()) == 9


def test_a_collective_job_leaves_the_endpoint_to_paddle() -> None:
    job = Job.from_environment(TWO)
    assert ("10.0.0.1", 8500) not in job.candidates()
    assert {host for host, _ in job.candidates()} == {"10.0.0.1"}
    assert all(20000 <= port < 32000 for _, port in job.candidates())
    assert job.candidates() == Job.from_environment({**TWO, "PADDLE_TRAINER_ID": "1"}).candidates()


def test_an_endpoint_of_ones_own_is_the_only_one() -> None:
    job = Job.from_environment(
        {"PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ID": "0", "FLEETMETRICS_ENDPOINT": "[::1]:77"}
    )
    assert job.candidates() == [("::1", 77)]


@pytest.mark.parametrize(
    ("environment", "kind", "text"),
    [
        ({"PADDLE_TRAINERS_NUM": "two"}, InvalidInputError, "PADDLE_TRAINERS_NUM holds 'two'"),
        ({"PADDLE_TRAINERS_NUM": "0"}, InvalidInputError, "PADDLE_TRAINERS_NUM holds '0'"),
        ({**TWO, "PADDLE_TRAINER_ID": "2"}, InvalidInputError, "PADDLE_TRAINER_ID is 2"),
        ({**TWO, "PADDLE_TRAINERS_NUM": "3"}, InvalidInputError, "names 2 workers"),
        ({**TWO, "PADDLE_TRAINER_ENDPOINTS": "a,b"}, InvalidInputError, "must be host:port"),
        ({**TWO, "FLEETMETRICS_ENDPOINT": "here"}, InvalidInputError, "FLEETMETRICS_ENDPOINT holds 'here'"),
        ({**TWO, "PADDLE_TRAINER_ENDPOINTS": ""}, NoChannelError, "FLEETMETRICS_ENDPOINT=host:port"),
        ({**TWO, "PADDLE_TRAINERS_NUM": "1"}, NoChannelError, "the number would be local"),
        ({"PADDLE_TRAINER_ENDPOINTS": "a:1,b:1"}, NoChannelError, "PADDLE_TRAINERS_NUM is not set"),
        ({"OMPI_COMM_WORLD_SIZE": "4"}, NoChannelError, "set_communicator"),
        ({"PMI_SIZE": "4"}, NoChannelError, "mpirun of MPICH or Intel MPI started 4 processes"),
        ({"HOROVOD_SIZE": "4"}, NoChannelError, "HOROVOD_SIZE says that"),
        ({"WORLD_SIZE": "4", "RANK": "1"}, NoChannelError, "torchrun started 4 processes"),
        ({"TRAINING_ROLE": "PSERVER"}, ServerProcessError, r"parameter server \(TRAINING_ROLE=PSERVER\)"),
        ({"PADDLE_ROLE": "PSERVER", "TRAINING_ROLE": ""}, ServerProcessError, r"\(PADDLE_ROLE=PSERVER\)"),
        ({"TRAINING_ROLE": "COORDINATOR"}, ServerProcessError, "coordinator of federated learning"),
        ({**TWO, "TRAINING_ROLE": "HETER_TRAINER"}, ServerProcessError, "heterogeneous trainer"),
    ],
)
def test_an_unusable_environment_is_an_error_that_says_why(
    environment: dict[str, str], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        Job.from_environment(environment)


def test_a_fleet_that_knows_more_workers_than_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    class RoleMaker:
        def _worker_num(self) -> int:
            return 2

    module: Any = type(sys)("paddle.distributed.fleet")
    module.fleet = type("Fleet", (), {"_role_maker": RoleMaker()})()
    monkeypatch.setitem(sys.modules, "paddle.distributed.fleet", module)
    with pytest.raises(NoChannelError, match="fleet was initialized with 2 workers"):
        Job.from_environment()
    with pytest.raises(NoChannelError, match="fleet was initialized with 2 workers"):
        fc.get_communicator()


@pytest.mark.parametrize("name", ["torch_cpu", "torch_cuda", "tf_horovod", "oneflow"])
def test_mmevals_names_of_backends_are_the_workers_of_the_job(name: str) -> None:
    assert get_dist_backend(name) is fc.get_communicator()
    own = fc.LocalCommunicator()
    with fc.set_communicator(own):
        assert get_dist_backend(name) is own
    assert name not in list_all_backends()


@pytest.mark.parametrize(
    "endpoint",
    [
        *(
            "",
            "host",
            "host:",
            ":80",
            "host:0",
            "host:65536",
            "host:x",
            "host:" + "1" * 5000,
            "http://host:80",
            "a b:80",
        ),
        *("a:1,b:2", "a:1,b", "::1", "2001:db8::5", "[::1]", "a\x1b:1", "h/x:1"),
    ],
)
def test_malformed_endpoints(endpoint: str) -> None:
    with pytest.raises(InvalidInputError, match="must be host:port"):
        split_endpoint(endpoint, "PADDLE_MASTER")


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), "soon", True])
def test_a_wrong_timeout_is_named(timeout: Any) -> None:
    with pytest.raises(InvalidInputError, match="timeout is"):
        fc.LocalCommunicator().barrier(timeout=timeout)


def test_the_timeout_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_timeout() == 1800
    monkeypatch.setenv("FLEETMETRICS_TIMEOUT", "2.5")
    assert (resolve_timeout(), resolve_timeout(3)) == (2.5, 3)
    monkeypatch.setenv("FLEETMETRICS_TIMEOUT", "soon")
    with pytest.raises(InvalidInputError, match="FLEETMETRICS_TIMEOUT is 'soon'"):
        resolve_timeout()


def test_set_communicator_takes_effect_at_once_and_ends_with_the_block() -> None:
    before = fc.get_communicator()
    first, second = fc.LocalCommunicator(), fc.LocalCommunicator()
    with fc.set_communicator(first) as inside:
        assert inside is fc.get_communicator() is fc.communicator_for() is first
        with fc.set_communicator(second):
            assert fc.get_communicator() is second
        assert fc.get_communicator() is first
    assert fc.get_communicator() is before
    fc.set_communicator(first)
    assert fc.get_communicator() is first
    fc.set_communicator(None)
    assert fc.get_communicator() is before
    assert fc.communicator_for(second) is second
    with pytest.raises(InvalidInputError, match="communicator is 3"):
        fc.set_communicator(3)  # type: ignore[arg-type]


class Util:
    """What ``fleet.util`` is without Gloo: each worker gets its own numbers back."""

    role_maker: Any

    def __init__(self, workers: int = 0) -> None:
        if workers:
            self.role_maker = type("RoleMaker", (), {"_worker_num": lambda _: workers})()

    def all_reduce(self, input: list[int], mode: str) -> list[int]:
        return input


@pytest.fixture
def of_two(monkeypatch: pytest.MonkeyPatch) -> fc.Communicator:
    """The channel of a launched job of two workers."""
    monkeypatch.setattr(choose, "_automatic", None)
    environment = {**TWO, "FLEETMETRICS_ENDPOINT": f"127.0.0.1:{free_ports(1)[0]}", "FLEETMETRICS_RUN": "a test's"}
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    return fc.get_communicator()


def test_arguments_count_before_settings_and_the_nearest_setting_first(of_two: fc.Communicator) -> None:
    given, util, was_set = (fc.LocalCommunicator() for _ in range(3))
    assert (type(of_two), of_two.world_size) == (fc.SocketCommunicator, 2)
    with fc.set_communicator(was_set):
        assert resolve(given, util, "paddle_dist") is given
        assert resolve(None, util, "paddle_dist") is util
        assert resolve(backend="paddle_dist") is of_two
        assert resolve(backend="non_dist") is get_dist_backend("non_dist") is not was_set
        assert resolve(backend="auto") is resolve() is was_set
    assert resolve() is resolve(backend="auto") is of_two


@pytest.mark.parametrize("workers", [0, 2])
def test_in_a_launched_job_util_means_the_channel_of_the_job(of_two: fc.Communicator, workers: int) -> None:
    assert fc.communicator_for(Util(workers)) is of_two
    assert choose.channel_of(None, Util(workers)) == (of_two, None)
    assert choose.channel_of(None, Util(workers), group=[0])[0].world_size == 1
    with fc.set_communicator(fc.LocalCommunicator()), pytest.raises(NoChannelError, match="covers 1 worker, but there"):
        fc.communicator_for(Util(workers)).all_reduce([1])


def test_a_util_of_other_workers_than_the_jobs_is_the_trouble_of_the_call(of_two: fc.Communicator) -> None:
    with pytest.raises(NoChannelError, match="util has 3 workers by its role maker, but this job has 2"):
        fc.communicator_for(Util(3))
    channel, trouble = choose.channel_of(None, Util(3))
    assert channel is of_two and isinstance(trouble, NoChannelError)


def test_fleets_util_before_fleet_was_initialized_is_refused_and_works_afterwards() -> None:
    given = Util(1)
    role_maker, given.role_maker = given.role_maker, None
    with pytest.raises(InvalidInputError, match=r"util is fleet.util before fleet.init\(\)"):
        fc.communicator_for(given)
    given.role_maker = role_maker
    assert fc.communicator_for(given).all_reduce([2]).tolist() == [2]


def test_without_a_job_the_numbers_go_through_the_object_itself() -> None:
    assert isinstance(fc.communicator_for(Util()), fc.UtilCommunicator)
    assert fc.communicator_for(Util(1)).all_reduce([2.5]).tolist() == [2.5]


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        ([True], "int64"),
        (np.uint8(3), "int64"),
        (np.float16(0.5), "float64"),
        ([[1.5]], "float64"),
        ([], "float64"),
    ],
)
def test_numbers_are_widened(given: Any, dtype: str) -> None:
    result = fc.LocalCommunicator().all_reduce(given)
    assert result.dtype == dtype
    assert result.tolist() == np.asarray(given).tolist()


def test_values_that_are_not_numbers_are_refused() -> None:
    local = fc.LocalCommunicator()
    with pytest.raises(InvalidInputError, match="complex numbers"):
        local.all_reduce([1j])
    with pytest.raises(IntegerOverflowError, match="largest integer allowed"):
        local.all_reduce(np.array([2**63], np.uint64))
    with pytest.raises(InvalidInputError, match="reduction is 'mean'"):
        local.all_reduce([1], "mean")
    with pytest.raises(InvalidInputError, match="object"):
        local.all_gather(np.array([{}]))
    with pytest.raises(InvalidInputError, match="source is 1"):
        local.broadcast([1], 1)
    with pytest.raises(InvalidInputError, match="float32"):
        fc.Block("total", "sum", np.zeros(1, np.float32))


def test_local_gives_copies() -> None:
    local, array = fc.LocalCommunicator(), np.arange(6).reshape(2, 3)[:, ::2]
    results = [local.all_reduce(array), local.all_gather(array)[0], local.broadcast(array)]
    for result in results:
        assert result.tolist() == array.tolist()
        assert not np.shares_memory(result, array)
    local.close()
    local.close()
    with pytest.raises(CommunicatorError, match="closed"):
        local.barrier()


def test_importing_does_not_import_paddle() -> None:
    code = "import sys, fleetmetrics.comm; sys.exit('paddle' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("given", [1e10, "1e10", 1e300, 10**300])
def test_a_timeout_beyond_a_lifetime_is_accepted(monkeypatch: pytest.MonkeyPatch, given: Any) -> None:
    if isinstance(given, str):
        monkeypatch.setenv("FLEETMETRICS_TIMEOUT", given)
    timeout = None if isinstance(given, str) else given
    assert resolve_timeout(timeout) == 1e9
    lock, port = threading.Lock(), free_ports(1)[0]
    assert lock.acquire(timeout=resolve_timeout(timeout))
    comms = [
        fc.SocketCommunicator(rank=rank, world_size=2, endpoint=f"127.0.0.1:{port}", secret="s") for rank in (0, 1)
    ]
    other = threading.Thread(target=lambda: comms[1].barrier(timeout=timeout))
    other.start()
    comms[0].barrier(timeout=timeout)
    other.join(PATIENCE)
    for comm in comms:
        comm.close()


NUMBERS = [5, 5.0, np.int8(5), np.float16(5), np.array(5), np.array(5.0, np.float32), Fraction(5), Decimal(5)]


@pytest.mark.parametrize("given", NUMBERS, ids=repr)
def test_a_timeout_is_a_number_of_any_kind(given: Any) -> None:
    assert resolve_timeout(given) == 5.0


class Text(str):
    """No number, like the string that it holds."""


TEXTS = ["5", "9" * 5000, b"5", bytearray(b"5"), memoryview(b"5"), Text("5"), np.str_("5"), np.bytes_(b"5")]
OTHERS = [True, np.True_, np.timedelta64(5, "ms"), 5 + 0j, np.array("5"), np.array([5.0]), [5]]
NOT_POSITIVE = [float("inf"), float("nan"), np.float32("nan"), 10**400, -1, 0, np.array(0.0)]


@pytest.mark.parametrize("given", [*TEXTS, *OTHERS, *NOT_POSITIVE], ids=lambda each: type(each).__name__)
def test_an_invalid_timeout_is_an_error_that_names_it(given: Any) -> None:
    with pytest.raises(
        InvalidInputError, match=r"timeout is .*it must be a finite number of seconds greater than 0"
    ) as caught:
        resolve_timeout(given)
    assert len(str(caught.value)) < 200
