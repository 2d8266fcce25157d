"""The manifests of deploy/kubernetes: valid, drained with grace, bounded, and by the names that the program has."""

import shutil
import subprocess
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from harvester import __version__
from harvester.config import Config
from harvester.control.app import create_app
from tests.deploy.test_prometheus import told_metrics
from tests.root import ROOT

kubernetes_validate: Any = pytest.importorskip("kubernetes_validate")
FOLDER = ROOT / "deploy" / "kubernetes"
VERSION = "1.33"
"""Of Kubernetes, whose schema they follow."""
OF_OTHERS = ("kustomize.config.k8s.io/", "keda.sh/")
"""Kinds that Kubernetes itself does not know."""


def documents() -> dict[str, dict[str, Any]]:
    """By kind and name."""
    found = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text("utf-8")):
            name = document.get("metadata", {}).get("name", path.stem)
            found[f"{document['kind']} {name}"] = document
    return found


DOCUMENTS = documents()
DEPLOYMENTS = [name for name in DOCUMENTS if name.startswith("Deployment ")]


def pod_of(deployment: str) -> dict[str, Any]:
    pod: dict[str, Any] = DOCUMENTS[deployment]["spec"]["template"]["spec"]
    return pod


@pytest.mark.parametrize(
    "name", [name for name, each in DOCUMENTS.items() if not each["apiVersion"].startswith(OF_OTHERS)]
)
def test_each_manifest_follows_the_schema_of_kubernetes_strictly(name: str) -> None:
    kubernetes_validate.validate(DOCUMENTS[name], VERSION, strict=True)


@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl, with its kustomize, is not installed")
def test_kustomize_builds_all_of_it() -> None:
    built = subprocess.run(["kubectl", "kustomize", str(FOLDER)], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    found = list(yaml.safe_load_all(built.stdout))
    assert len(found) == len(DOCUMENTS) - 1, "all but the kustomization itself"
    images = {
        container["image"]
        for each in found
        if each["kind"] == "Deployment"
        for container in each["spec"]["template"]["spec"]["containers"]
    }
    assert images == {f"harvester:{__version__}"}


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_pods_are_restricted_bounded_and_watched(deployment: str) -> None:
    pod = pod_of(deployment)
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"]["limits"]["memory"]
    assert container["livenessProbe"]


def test_a_worker_has_longer_to_drain_than_it_is_told_to_take() -> None:
    pod = pod_of("Deployment worker")
    arguments = pod["containers"][0]["args"]
    assert pod["terminationGracePeriodSeconds"] > float(arguments[arguments.index("--drain-seconds") + 1])
    assert (
        DOCUMENTS["PodDisruptionBudget worker"]["spec"]["selector"]
        == DOCUMENTS["Deployment worker"]["spec"]["selector"]
    )


def test_settings_are_ones_that_there_are_and_no_secret_is_among_them() -> None:
    settings = DOCUMENTS["ConfigMap harvester-settings"]["data"]
    known = {f"HARVESTER_{name.upper()}" for name in Config.model_fields}
    assert {name.removesuffix("_FILE") for name in settings} <= known
    assert not [name for name, value in settings.items() if "://" in value]


def test_workers_are_scaled_by_a_metric_that_there_is_and_nobody_else_says_how_many() -> None:
    scaled = DOCUMENTS["ScaledObject worker"]["spec"]
    assert scaled["scaleTargetRef"]["name"] == "worker"
    assert "replicas" not in DOCUMENTS["Deployment worker"]["spec"]
    (trigger,) = scaled["triggers"]
    assert "harvester_wanted_workers" in trigger["metadata"]["query"]
    assert "harvester_wanted_workers" in told_metrics()


def test_the_controller_is_probed_where_it_answers(config: Config) -> None:
    paths = set(create_app(config).openapi()["paths"])
    (container,) = pod_of("Deployment controller")["containers"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["path"] in paths
