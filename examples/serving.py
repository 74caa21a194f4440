"""An endpoint that explains one row: a prediction and its reasons, as JSON, in well under a millisecond.

Only the standard library serves. With --model it reads what `TreeExplainer.save` wrote, and needs neither the
library that trained the model nor its memory. --measure asks it many times over a real connection and prints
the times.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

from linear_treeshap import TreeExplainer

#: A request may be this large.
MAX_BYTES = 1 << 20


class Endpoint(ThreadingHTTPServer):
    """Answers ``POST /explain`` with the prediction for a row and the features that made it."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], explainer: TreeExplainer, n_reasons: int = 3) -> None:
        super().__init__(address, Handler)
        self.explainer = explainer  # never changes, so that all threads may share it
        self.names = explainer.feature_names or ()
        self.n_reasons = n_reasons

    def answer(self, row: Any) -> dict[str, Any]:
        """What the model says to a row, a dictionary of name → number; null is missing."""
        if not isinstance(row, dict) or row.keys() != set(self.names):
            raise ValueError(f"expected an object with {', '.join(self.names)}")
        numbers = [math.nan if row[name] is None else float(row[name]) for name in self.names]
        # An array of one row is the shortest way in. The model's sums were checked before it was saved.
        values = self.explainer.shap_values(np.array(numbers), check_additivity=False)
        base = self.explainer.expected_value
        first = np.argsort(-np.abs(values))[: self.n_reasons]
        return {
            "prediction": base + float(values.sum()),
            "base_value": base,
            "reasons": [
                {"feature": self.names[i], "value": row[self.names[i]], "effect": float(values[i])}
                for i in first
            ],
        }


class Handler(BaseHTTPRequestHandler):
    """One request: a row in, an answer out; whatever is wrong with it is said with status 400."""

    protocol_version = "HTTP/1.1"  # connections stay open
    disable_nagle_algorithm = True
    server: Endpoint

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        if self.path != "/explain" or length > MAX_BYTES:
            self._send(404 if self.path != "/explain" else 413, {"error": "POST a row to /explain"})
            return
        try:
            self._send(200, self.server.answer(json.loads(self.rfile.read(length))))
        except (ValueError, TypeError) as error:
            self._send(400, {"error": str(error)})

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: every line would cost more than an explanation."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--model", type=Path, help="what TreeExplainer.save wrote (default: a model is trained)"
    )
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--measure", type=int, metavar="N", help="ask N times, print the latency, and end")
    args = parser.parse_args()

    if args.model is None:
        explainer = TreeExplainer(trained(), n_jobs=1)
    else:
        explainer = TreeExplainer.load(args.model, n_jobs=1)
    with Endpoint(("127.0.0.1", 0 if args.measure else args.port), explainer) as endpoint:
        if args.measure:
            threading.Thread(target=endpoint.serve_forever, daemon=True).start()
            measure(endpoint, args.measure)
            endpoint.shutdown()
        else:
            print(f"POST a row to http://127.0.0.1:{endpoint.server_port}/explain")
            endpoint.serve_forever()


def trained() -> Any:
    """A boosted model of the diabetes data that ships with scikit-learn."""
    from sklearn.datasets import load_diabetes
    from sklearn.ensemble import HistGradientBoostingRegressor

    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    return HistGradientBoostingRegressor(max_iter=200, max_leaf_nodes=31, random_state=0).fit(X, y)


def measure(endpoint: Endpoint, n_requests: int) -> None:
    """One client, one connection, random rows; times of everything and of the explanation alone."""
    rng = np.random.default_rng(0)
    connection = http.client.HTTPConnection("127.0.0.1", endpoint.server_port)
    print(f"{endpoint.explainer!r}\n")
    whole, inside = [], []
    for _ in range(n_requests):
        row = {
            name: round(float(x), 3)
            for name, x in zip(endpoint.names, rng.normal(50, 40, len(endpoint.names)), strict=True)
        }
        body = json.dumps(row)
        start = time.perf_counter()
        connection.request("POST", "/explain", body, {"Content-Type": "application/json"})
        answer = connection.getresponse().read()
        whole.append(time.perf_counter() - start)
        start = time.perf_counter()
        endpoint.explainer.shap_values(np.array([*row.values()]), check_additivity=False)
        inside.append(time.perf_counter() - start)
    connection.close()
    print(json.dumps(json.loads(answer), indent=2))
    print(f"\n{'µs, of ' + format(n_requests, ',') + ' requests':<28}{'median':>8}{'99 %':>8}")
    for name, times in (("request to answer, HTTP", whole), ("of that, the explanation", inside)):
        print(f"{name:<28}{np.median(times) * 1e6:>8.0f}{np.quantile(times, 0.99) * 1e6:>8.0f}")


if __name__ == "__main__":
    main()
