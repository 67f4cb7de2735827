"""The environment variables that the package reads; `support.launcher` has those of launchers."""

from __future__ import annotations

__all__ = ["PADDLES", "SETTINGS"]

#: The variables that users of this package set, by name; the doctor checks each as its reader does.
SETTINGS = {
    "FLEETMETRICS_BIND": "the address on which rank 0 listens, without a port, if it is not the host of its "
    "endpoint: behind a different address, or `0.0.0.0` for all addresses",
    "FLEETMETRICS_DIGESTS": "`all` (the default): every message carries a digest of its numbers; `heads`: only of its "
    "head. Rank 0's setting applies to all workers",
    "FLEETMETRICS_ENDPOINT": "`host:port` where rank 0 must listen instead; the same on all workers",
    "FLEETMETRICS_ENGINE": "`mpi`: MPI finds the workers and sends records; unset: sockets",
    "FLEETMETRICS_LOG": "`info` or `warning`: the level of the log of exchanges; unset: the level of Python's logging",
    "FLEETMETRICS_RUN": "the name of this run, different for each run and the same on all its workers; needed if no "
    "launcher names it",
    "FLEETMETRICS_SECRET": "a long random string that only the workers of the job know; jobs over several machines "
    "need it",
    "FLEETMETRICS_TIMEOUT": "the longest wait for the other workers, in seconds; by default 300 until all have met, "
    "then 1,800, and 60 in an interactive session",
    "FLEETMETRICS_WORKER": "`this`: this process is the worker, although a process with the same environment "
    "started it",
}

#: The variables of Paddle that its launcher does not use to number workers.
PADDLES = {
    "PADDLE_MASTER": "the address of rank 0, if there are no endpoints",
    "TRAINING_ROLE": "`PSERVER`, `COORDINATOR` or `HETER_TRAINER`: the process is not a worker and cannot compute"
    " metrics; `PADDLE_ROLE` means the same",
    "PADDLE_PSERVERS_IP_PORT_LIST": "the servers: with `TRAINING_ROLE`, the job has parameter servers",
    "PADDLE_GLOO_RENDEZVOUS": "`3`: Gloo's workers meet in a folder, which distinguishes runs",
    "PADDLE_GLOO_FS_PATH": "that folder",
    "PADDLE_DISTRI_BACKEND": "set by `paddle.distributed.spawn`, which draws free ports: no other run has the same "
    "endpoints",
    "POD_NAME": "the machine's name in Paddle's launcher",
}
