"""All faults of the corpus, in the order of the table that is made of them."""

from __future__ import annotations

from tests.pipeline.corpus import (
    faults_beside_logs,
    faults_held_out,
    faults_held_out_again,
    faults_of_coordinators,
    faults_of_logs,
    faults_of_stores,
    faults_of_transactions,
)
from tests.pipeline.corpus.fault import FAULTS as DECLARED
from tests.pipeline.corpus.fault import Fault

__all__ = ["FAULTS", "KINDS", "Fault"]

KINDS = (
    *faults_of_logs.KINDS,
    *faults_of_transactions.KINDS,
    *faults_beside_logs.KINDS,
    *faults_of_stores.KINDS,
    *faults_held_out.KINDS,
    *faults_held_out_again.KINDS,
    *faults_of_coordinators.KINDS,
)
FAULTS: list[Fault] = sorted(DECLARED, key=lambda one: KINDS.index(one.group))
