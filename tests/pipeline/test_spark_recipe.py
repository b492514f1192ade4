"""docs/recipes/spark.md, with the jars that `make pipeline-jars` has fetched."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest
from tests.recipes.page import Recipe

from odradek_pipeline.spark.session import connector_jars

pytestmark = [
    pytest.mark.client,
    pytest.mark.skipif(not connector_jars(), reason="Spark's Kafka connector is not there: make pipeline-jars"),
]


def test_the_recipe_with_spark(tmp_path: Path) -> None:
    release = pyspark.__version__
    packages = f"--packages org.apache.spark:spark-sql-kafka-0-10_2.13:{release}"
    jars = f"--jars {','.join(map(str, connector_jars()))}"
    recipe = Recipe("spark", tmp_path, instead={packages: jars})
    assert [f"pip install pyspark=={release} confluent-kafka\n"] == recipe.installs
    (command,) = recipe.commands
    assert packages in command.code
    with recipe.ready():
        recipe.run(command)
