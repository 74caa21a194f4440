"""Reason codes: the four main reasons for each declined application, and how sure they are.

Trains the model of `credit_risk.py`, on the German credit data where there are any, and prints the reasons of
a few applications, how large their margins are, and how many survive if the model is trained again.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from credit_risk import load, train
from sklearn.model_selection import train_test_split

from linear_treeshap import Explanation, TreeExplainer, stability

#: What a letter would say.
CODES = {
    "checking_status": ("C01", "status of the current account"),
    "credit_history": ("C02", "earlier credits"),
    "credit_amount": ("C03", "amount asked for"),
    "duration": ("C04", "length of the credit"),
    "savings_status": ("C05", "savings"),
    "employment": ("C06", "length of employment"),
    "other_payment_plans": ("C07", "other instalment plans"),
    "purpose": ("C08", "purpose of the credit"),
    "property_magnitude": ("C09", "property"),
    "housing": ("C10", "housing"),
}
#: Above a risk of one third an application is declined: in log-odds, as the model adds up.
THRESHOLD = float(np.log(1 / 2))
N_REFITS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--openml", action="store_true", help="fetch the data from OpenML")
    X, is_bad, source = load(parser.parse_args().openml)
    X_train, X_test, y_train, _ = train_test_split(X, is_bad, test_size=0.3, random_state=0, stratify=is_bad)
    explanation = TreeExplainer(train(X_train, y_train))(X_test)
    reasons = explanation.reasons(4, toward="up", codes=CODES, exclude=["age"], threshold=THRESHOLD)
    n_declined = reasons["row"].nunique()
    print(f"{source}; {n_declined} of {len(X_test)} applications are declined\n")
    print_letters(reasons)
    print_margins(reasons)
    print_refits(X_train, y_train, explanation)


def print_letters(reasons: pd.DataFrame) -> None:
    """The reasons of the first three."""
    for row, of_row in list(reasons.groupby("row", sort=False))[:3]:
        print(f"application {row}")
        for reason in of_row.itertuples():
            code, text = (reason.code, reason.text) if isinstance(reason.code, str) else ("–", reason.feature)
            print(f"  {code:<5}{text:<32}{reason.data!s:<18}{reason.share:>4.0%} of the distance", end="")
            print(f", margin {reason.margin:.2f}")
        print(f"  not disclosed: {of_row['undisclosed'].iloc[0]:+.2f} log-odds\n")


def print_margins(reasons: pd.DataFrame) -> None:
    """The last reason named has the smallest lead over what is not."""
    last = reasons.groupby("row")["margin"].min()
    print(
        f"the last reason leads the first one not named by {last.median():.3f} log-odds in the median, and by"
    )
    print(f"less than 0.01 for {(last < 0.01).mean():.0%} of them")


def print_refits(X: pd.DataFrame, y: pd.Series, explanation: Explanation) -> None:
    """The same rows by models of nine tenths of the training rows each."""
    rng = np.random.default_rng(0)
    refits = [explanation]
    for _ in range(N_REFITS - 1):
        some = rng.permutation(len(X))[: len(X) * 9 // 10]
        refits.append(TreeExplainer(train(X.iloc[some], y.iloc[some]))(explanation.table))
    print(f"\n{stability(refits, toward='up', top=4)}")


if __name__ == "__main__":
    main()
