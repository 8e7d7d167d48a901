"""A file of an older form is read as one of today, and says so."""

import logging
from dataclasses import replace

import pytest
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.config.problems import InvalidScenarioError
from foretrace.scenarios.config.reading import migrations
from foretrace.scenarios.config.reading.migrations import MIGRATIONS, migration

OLD = """\
foretrace: 0
name: old
workload: {trace: t.json}
machines: {nodes: NODES, node: {gpu: {}}}
"""


@pytest.fixture
def from_nought():
    @migration(0, "'machines' is called 'cluster'")
    def renamed(tree):
        value = {("cluster" if k == "machines" else k): n for k, n in tree.mapping.items()}
        return replace(tree, value=value)

    yield
    del MIGRATIONS[0]


def test_an_old_file_is_read_with_a_warning(from_nought, caplog):
    with caplog.at_level(logging.WARNING):
        found = loads(OLD.replace("NODES", "3"), file="old.yaml")
    assert found.cluster.nodes == 3
    assert "old.yaml: scenario form 0 is read as form 1: 'machines' is called" in caplog.text


def test_messages_lead_to_the_old_file(from_nought):
    with pytest.raises(InvalidScenarioError) as caught:
        loads(OLD.replace("NODES", "0"), file="old.yaml")
    assert "old.yaml:4:19" in str(caught.value)


def test_a_form_without_a_migration_is_an_error():
    with pytest.raises(
        InvalidScenarioError, match="this file has form 0, this version reads form 1"
    ):
        loads(OLD.replace("NODES", "3").replace("machines", "cluster"))


def test_a_migration_is_registered_once_and_leads_to_a_form_that_there_is(from_nought):
    with pytest.raises(ValueError, match="form 0: has a migration already"):
        migration(0, "")(lambda tree: tree)
    with pytest.raises(ValueError, match="is not older than form 1"):
        migration(migrations.FORM, "")(lambda tree: tree)
