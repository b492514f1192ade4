"""The pages of docs/recipes: what they run is run, and prints what they say that it prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.clients.lacking import with_toolchains
from tests.clients.toolchain import need, python_with
from tests.recipes.page import FOLDER, Recipe

pytestmark = [pytest.mark.slow, pytest.mark.client, pytest.mark.builds]

# confluent-kafka[avro,schemaregistry] and what it depends on.
SCHEMA_CLIENT = (
    "confluent-kafka==2.16.1",
    "anyio==4.16.0",
    "attrs==26.1.0",
    "authlib==1.9.10",
    "avro==1.12.2",
    "cachetools==8.0.2",
    "certifi==2026.10.19.post1",
    "cffi==2.1.1",
    "charset-normalizer==3.5.3",
    "cryptography==50.0.2",
    "fastavro==1.13.1",
    "h11==0.16.0",
    "httpcore2==2.16.2",
    "httpx2==2.16.2",
    "idna==3.20",
    "joserfc==1.8.0",
    "pycparser==3.12",
    "requests==2.34.2",
    "truststore==0.10.5",
    "typing_extensions==4.16.0",
    "urllib3==2.8.0",
)


def test_the_list_of_the_recipes_is_complete() -> None:
    listed = re.findall(r"^\| \[([\w-]+)\.md\]\(\1\.md\) \|", (FOLDER / "README.md").read_text(), re.MULTILINE)
    assert sorted(["README", *listed]) == sorted(page.stem for page in FOLDER.iterdir())


@pytest.mark.parametrize("name", ["connect", "flink", "spring"])
def test_a_recipe_in_java(name: str, tmp_path: Path) -> None:
    play(Recipe(name, tmp_path, instead={}))


def test_the_recipe_with_a_schema_registry(tmp_path: Path) -> None:
    with with_toolchains("the schema registry"):
        python = python_with(*SCHEMA_CLIENT)
    recipe = Recipe("schema-registry", tmp_path, python=python, instead={})
    assert [
        f"pip install 'confluent-kafka[avro,schemaregistry]=={SCHEMA_CLIENT[0].partition('==')[2]}'\n"
    ] == recipe.installs
    play(recipe)


def play(recipe: Recipe) -> None:
    assert any(command.prints for command in recipe.commands)
    with with_toolchains(recipe.name):
        need("java", "javac", "mvn", "curl")
        with recipe.ready():
            for command in recipe.commands:
                recipe.run(command)
