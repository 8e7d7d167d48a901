"""Folders that are whole or not there."""

import os

import pytest
from foretrace.sim import atomic_folder
from foretrace.sim.atomic_folder import PART, remove_abandoned_folders, replace_folder_on_success


def write(target, text):
    with replace_folder_on_success(target) as new:
        (new / "answer").write_text(text)


def test_a_folder_appears_only_when_it_is_complete(tmp_path):
    with replace_folder_on_success(tmp_path / "run") as new:
        (new / "answer").write_text("half")
        assert not (tmp_path / "run").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_a_folder_is_replaced(tmp_path):
    write(tmp_path / "run", "old")
    write(tmp_path / "run", "new")
    assert (tmp_path / "run" / "answer").read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_a_folder_is_replaced_without_an_atomic_exchange(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic_folder, "_exchange_folders", lambda *_: False)
    test_a_folder_is_replaced(tmp_path)


def test_a_failed_write_keeps_the_old_folder(tmp_path):
    write(tmp_path / "run", "old")
    with pytest.raises(TypeError):
        write(tmp_path / "run", None)
    assert (tmp_path / "run" / "answer").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_the_target_exists_at_every_step_of_a_replacement(tmp_path, monkeypatch):
    """No call that the replacing makes leaves the place empty."""
    target = tmp_path / "run"
    write(target, "old")
    rename = os.rename

    def watched(*paths):
        rename(*paths)
        assert target.exists()

    monkeypatch.setattr(os, "rename", watched)
    write(target, "new")


def test_folders_of_dead_processes_are_removed(tmp_path):
    (tmp_path / f".run.dead{PART}" / "new").mkdir(parents=True)
    write(tmp_path / "other", "new")
    assert [p.name for p in tmp_path.iterdir()] == ["other"]


def test_folders_of_running_processes_are_kept(tmp_path):
    with replace_folder_on_success(tmp_path / "run") as new:
        (new / "answer").write_text("half")
        remove_abandoned_folders(tmp_path)
        assert (new / "answer").exists()


def test_other_hidden_folders_are_kept(tmp_path):
    (tmp_path / ".git").mkdir()
    remove_abandoned_folders(tmp_path)
    assert (tmp_path / ".git").is_dir()
