"""The environment variables that are read: one table, beside that of launchers in `fleetmetrics.launcher`."""

from __future__ import annotations

__all__ = ["PADDLES", "SETTINGS"]

#: What users of this package set, by name; the doctor reads each as it would be read one day.
SETTINGS = {
    "FLEETMETRICS_BIND": "the address on which worker 0 listens, without a port, if it is not the host of its "
    "endpoint: behind another address, or `0.0.0.0` for all",
    "FLEETMETRICS_DIGESTS": "`all` (the default), or `heads`: what is sent carries no digest of the numbers; "
    "worker 0's counts",
    "FLEETMETRICS_ENDPOINT": "`host:port` of worker 0, where it must listen instead; written the same on all workers",
    "FLEETMETRICS_ENGINE": "`mpi`: workers and large data by MPI; unset: by sockets",
    "FLEETMETRICS_LEVELS": "`1`: every worker sends its states to worker 0; `2`: workers of one host send them by way "
    "of a leader; unset: `2` from 128 workers on; worker 0's counts",
    "FLEETMETRICS_LOG": "`info` or `warning`: what is logged of each exchange; unset: what the program's logging "
    "asks for",
    "FLEETMETRICS_SECRET": "a long random text that only the workers of the job know; needed over several machines",
    "FLEETMETRICS_TIMEOUT": "the deadline of an exchange, in seconds; 1,800 by default",
    "FLEETMETRICS_WORKER": "`this`: this process is the worker, although a process with the same environment has "
    "started it",
}

#: What Paddle sets, beside what its launcher says of workers.
PADDLES = {
    "PADDLE_MASTER": "where to find worker 0 if there are no endpoints",
    "TRAINING_ROLE": "`PSERVER`, `COORDINATOR` or `HETER_TRAINER`: not a worker, nothing can be computed there;"
    " `PADDLE_ROLE` says the same",
    "PADDLE_PSERVERS_IP_PORT_LIST": "the servers: with `TRAINING_ROLE`, the job has parameter servers",
    "PADDLE_GLOO_RENDEZVOUS": "`3`: Gloo's workers meet in a folder, which tells runs apart",
    "PADDLE_GLOO_FS_PATH": "that folder",
    "POD_NAME": "the machine's name in Paddle's launcher",
}
