"""An explainer that MLflow keeps, where MLflow uses models: as a function of Spark, and behind HTTP."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cluster_cases import spark_session, started

from linear_treeshap import TreeExplainer

pytest.importorskip("mlflow.pyfunc")
pd = pytest.importorskip("pandas")
ensemble = pytest.importorskip("sklearn.ensemble")

# MLflow would like types that it cannot read here, and Spark leaves sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore")

#: Python, MLflow and its server take some seconds to start; a busy machine takes longer.
PATIENCE = 120.0


@pytest.fixture(scope="module")
def rows() -> Any:
    return pd.DataFrame(np.random.default_rng(0).normal(size=(60, 4)), columns=list("wxyz"))


@pytest.fixture(scope="module")
def explainer(rows: Any) -> TreeExplainer:
    model = ensemble.RandomForestRegressor(10, max_depth=4, random_state=0)
    return TreeExplainer(model.fit(rows, rows.w + rows.x * rows.y))


@pytest.fixture(scope="module")
def folder(explainer: TreeExplainer, rows: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from linear_treeshap.mlflow import save_model

    path: Path = tmp_path_factory.mktemp("mlflow") / "model"
    save_model(path, explainer, rows[:3])
    return path


def test_as_a_function_of_spark(explainer: TreeExplainer, rows: Any, folder: Path) -> None:
    """A struct of values, base value and prediction, to the bit."""
    import mlflow.pyfunc

    pytest.importorskip("pyspark")
    from pyspark.sql import functions

    spark = started("Spark", spark_session)
    why = mlflow.pyfunc.spark_udf(spark, str(folder), env_manager="local")
    table = spark.createDataFrame(rows).coalesce(1)
    found = table.withColumn("why", why(functions.struct(*rows.columns))).toPandas()
    expected = explainer(found[list(rows.columns)]).to_frame(base_values=True)
    pd.testing.assert_frame_equal(pd.DataFrame(found["why"].tolist()), expected, rtol=0, atol=0)


def test_behind_http(explainer: TreeExplainer, rows: Any, folder: Path) -> None:
    """``mlflow models serve``, which is asked for one row."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve = f"models serve -m {folder} -p {port} --env-manager local --workers 1"
    paths = {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),  # it runs uvicorn
    }
    server = subprocess.Popen(
        [sys.executable, "-m", "mlflow", *serve.split()],
        env={**os.environ, **paths, "MLFLOW_DISABLE_TELEMETRY": "true"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        asked = json.dumps({"dataframe_records": rows[:1].to_dict("records")}).encode()
        answer = _ask(f"http://127.0.0.1:{port}/invocations", asked, server)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)  # the server is a child of the command
        server.communicate()
    expected = explainer(rows[:1]).to_frame(base_values=True)
    pd.testing.assert_frame_equal(pd.DataFrame(answer["predictions"]), expected, rtol=0, atol=0)


def _ask(address: str, content: bytes, server: subprocess.Popen[bytes]) -> Any:
    """The answer, as soon as the server gives one."""
    request = urllib.request.Request(address, content, {"Content-Type": "application/json"})
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                return json.load(response)
        except urllib.error.HTTPError:
            raise
        except OSError:
            assert server.poll() is None, server.communicate()[0].decode()[-2000:]
            assert time.monotonic() < end, "the server did not start"
            time.sleep(0.2)
