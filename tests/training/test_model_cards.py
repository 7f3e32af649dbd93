"""Model cards: what they say of data, figures and weights, that the hub can read them, and whose they are."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import ModelCard

from steerable.models import resnet, unet
from steerable.models.cards import inline
from steerable.training.requests.run_files import FACTS, FACTS_JSON, read_fields
from steerable.training.trained_networks.model_facts import facts_in, model_facts

RESULTS: dict[str, Any] = {
    "task": "classify",
    "dataset": "my|data",
    "test_accuracy": 0.9375,
    "macro_f1": 0.88,
    "poses": {"accuracy": {"e": 0.94, "r": 0.93}, "drift": {"e": 0.0, "r": 1e-7}, "all_poses": 0.935},
}
DATA: dict[str, Any] = {
    "images": {"train": 1000, "validation": 0, "test": 30},
    "classes": ["a_b", "<script>", "`x`\n---"],
    "image_size": [32, 32],
    "channels": 1,
    "digests": {"train": "abc", "validation": None, "test": "def"},
}


def test_a_card_says_what_the_hub_expects(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = resnet(8, 1)
    network.save_pretrained(tmp_path, facts=model_facts(RESULTS, DATA, "old"), licence="mit")
    card = ModelCard.load(tmp_path / "README.md")
    assert card.data.library_name == "steerable"
    assert card.data.license == "mit"
    assert card.data.pipeline_tag == "image-classification"
    found = {result.metric_type: result.metric_value for result in card.data.eval_results}
    assert found == {"accuracy": 0.9375, "F1, mean over classes": 0.88, "accuracy, mean over poses": 0.935}
    text = card.text
    digest = hashlib.sha256((tmp_path / "model.safetensors").read_bytes()).hexdigest()
    for row in (
        f"| SHA-256 of `model.safetensors` | `{digest}` |",
        "| group | D4 |",
        "| parameters | 11,724 |",
        "| images | 1,000 train, 30 test |",
        "| starts from | old |",
        "| digest of the train images | `abc` |",
        r"| classes | 3: a\_b, \<script\>, \`x\` --- |",
        "| r | 0.9300 | 1.0e-07 |",
    ):
        assert f"\n{row}\n" in text, row
    assert 'load_trained("FOLDER")' in text
    assert "<script>" not in text
    assert "\n\n\n" not in text


def test_a_network_alone_has_a_short_card_and_no_licence(tmp_path: Path) -> None:
    unet(1, 1).save_pretrained(tmp_path)
    card = ModelCard.load(tmp_path / "README.md")
    assert card.data.license is None
    assert card.data.eval_results is None
    assert "## Data" not in card.text
    assert 'UNet.from_pretrained("FOLDER")' in card.text


def test_a_card_that_somebody_has_edited_stays_and_another_is_renewed(tmp_path: Path) -> None:
    torch.manual_seed(0)
    resnet(8, 1).save_pretrained(tmp_path)
    before = (tmp_path / "README.md").read_text()
    resnet(8, 2).save_pretrained(tmp_path)
    after = (tmp_path / "README.md").read_text()
    assert after != before
    assert hashlib.sha256((tmp_path / "model.safetensors").read_bytes()).hexdigest() in after
    (tmp_path / "README.md").write_text("My own words.")
    resnet(8, 1).save_pretrained(tmp_path)
    assert (tmp_path / "README.md").read_text() == "My own words."


def test_facts_are_read_again_and_damage_is_named(tmp_path: Path) -> None:
    facts = model_facts(RESULTS, DATA)
    (tmp_path / FACTS_JSON).write_text(json.dumps(facts))
    assert facts_in(tmp_path) == facts
    assert facts.keys() == FACTS.keys()
    assert facts_in(tmp_path / "nowhere") == {}
    for key, value in (
        ("figures", {"accuracy": "high"}),
        ("poses", {"figure": "Dice", "values": {"e": 1}, "drift": {}}),
    ):
        (tmp_path / FACTS_JSON).write_text(json.dumps({**facts, key: value}))
        with pytest.raises(ValueError, match=f"for `{key}`, expected"):
            read_fields(tmp_path / FACTS_JSON, FACTS)


def test_text_of_others_is_no_markup() -> None:
    assert inline("a\n# b | <i>") == r"a # b \| \<i\>"
