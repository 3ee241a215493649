"""What Dagster's Helm chart makes of docker/kubernetes/values.yaml, as objects for kubectl.

The chart cannot be had everywhere. These are the objects of its templates (compared with those that Helm renders),
under the names of the release `weather`: the instance's dagster.yaml, workspace, service account and role, code server,
daemon and web server. Left out: init containers, which wait for database and code server (Kubernetes starts again what
ended without them), empty environments, and labels.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

import yaml

HOME = "/opt/dagster/dagster_home"
INSTANCE, WORKSPACE, ACCOUNT = "weather-dagster-instance", "weather-dagster-workspace-yaml", "weather-dagster"
_SECONDS = 120


def kubectl(*arguments: str, **more: Any) -> str:
    """Run the command `kubectl`; return its output."""
    done = subprocess.run(
        ["kubectl", *arguments], capture_output=True, text=True, check=False, timeout=_SECONDS, **more
    )
    assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return str(done.stdout)


def shown(kind: str, *arguments: str) -> list[Any]:
    """The objects of that kind, as `kubectl get` shows them."""
    return list(json.loads(kubectl("get", kind, "--output", "json", *arguments))["items"])


def apply(*objects: dict[str, Any]) -> None:
    kubectl("apply", "--filename", "-", input=yaml.safe_dump_all(objects, sort_keys=False))


def configuration(kind: str, name: str, **data: str) -> dict[str, Any]:
    """A ConfigMap or Secret of texts."""
    key = {"ConfigMap": "data", "Secret": "stringData"}[kind]
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, key: data}


def service(name: str, port: int, address: str | None = None) -> dict[str, Any]:
    more = {} if address is None else {"clusterIP": address}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"deployment": name}, "ports": [{"port": port, "targetPort": port}], **more},
    }


def deployment(name: str, pod: dict[str, Any], replicas: int = 1) -> dict[str, Any]:
    labels = {"deployment": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def release(values: dict[str, Any], *, dagster_image: str, code_address: str) -> list[dict[str, Any]]:
    """The objects of the chart for these values.

    `dagster_image` has Dagster's daemon and web server, as the chart's default image; `code_address` is the address of
    the code server's Service, which is known beforehand where no DNS server follows services.
    """
    (code,) = values["dagster-user-deployments"]["deployments"]
    (server,) = values["dagsterWebserver"]["workspace"]["servers"]
    workspace = {
        "load_from": [
            {"grpc_server": {"host": server["host"], "port": server["port"], "location_name": server["name"]}}
        ]
    }
    port = values["dagsterWebserver"]["service"]["port"]
    return [
        configuration("ConfigMap", INSTANCE, **{"dagster.yaml": yaml.safe_dump(dagster_yaml(values))}),
        configuration("ConfigMap", WORKSPACE, **{"workspace.yaml": yaml.safe_dump(workspace)}),
        *_account(),
        deployment(code["name"], _code_server(values, code)),
        service(code["name"], code["port"], code_address),
        deployment(
            "weather-dagster-daemon",
            _dagster_pod(
                values, "dagsterDaemon", dagster_image, "dagster-daemon run -w /dagster-workspace/workspace.yaml"
            ),
        ),
        deployment(
            "weather-dagster-webserver",
            _dagster_pod(
                values,
                "dagsterWebserver",
                dagster_image,
                f"dagster-webserver -h 0.0.0.0 -p {port} -w /dagster-workspace/workspace.yaml",
            ),
        ),
        service("weather-dagster-webserver", port),
    ]


def dagster_yaml(values: dict[str, Any]) -> dict[str, Any]:
    """The instance's configuration (the chart's configmap-instance.yaml)."""
    postgresql, daemon = values["postgresql"], values["dagsterDaemon"]
    database = {
        "postgres_db": {
            "username": postgresql["postgresqlUsername"],
            "password": {"env": "DAGSTER_PG_PASSWORD"},
            "hostname": postgresql["postgresqlHost"],
            "db_name": postgresql["postgresqlDatabase"],
            "port": postgresql["service"]["port"],
            "params": postgresql["postgresqlParams"],
        }
    }
    storages = {
        "schedule_storage": ("dagster_postgres.schedule_storage", "PostgresScheduleStorage"),
        "run_storage": ("dagster_postgres.run_storage", "PostgresRunStorage"),
        "event_log_storage": ("dagster_postgres.event_log", "PostgresEventLogStorage"),
    }
    monitoring = daemon["runMonitoring"]
    assert values["computeLogManager"]["type"] == "NoOpComputeLogManager"
    return {
        "scheduler": {"module": "dagster.core.scheduler", "class": "DagsterDaemonScheduler"},
        **{name: {"module": module, "class": kind, "config": database} for name, (module, kind) in storages.items()},
        "run_launcher": {
            "module": "dagster_k8s",
            "class": "K8sRunLauncher",
            "config": _launcher(values["runLauncher"]["config"]["k8sRunLauncher"], values),
        },
        "run_coordinator": daemon["runCoordinator"]["config"]["customRunCoordinator"],
        "compute_logs": {"module": "dagster.core.storage.noop_compute_log_manager", "class": "NoOpComputeLogManager"},
        "run_monitoring": {
            "enabled": monitoring["enabled"],
            "start_timeout_seconds": monitoring["startTimeoutSeconds"],
            "max_resume_run_attempts": monitoring["maxResumeRunAttempts"],
            "poll_interval_seconds": monitoring["pollIntervalSeconds"],
            "free_slots_after_run_end_seconds": monitoring["freeSlotsAfterRunEndSeconds"],
        },
        "run_retries": {"enabled": daemon["runRetries"]["enabled"]},
        "telemetry": values["telemetry"],
        **values["additionalInstanceConfig"],
    }


def _launcher(given: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    run = given["runK8sConfig"]
    return {
        "load_incluster_config": True,
        "job_namespace": "default",
        "image_pull_policy": given["imagePullPolicy"],
        "service_account_name": ACCOUNT,
        "dagster_home": HOME,
        "instance_config_map": INSTANCE,
        "postgres_password_secret": values["global"]["postgresqlSecretName"],
        "env_secrets": [secret["name"] for secret in given["envSecrets"]],
        "env_vars": given["envVars"],
        "volume_mounts": given["volumeMounts"],
        "volumes": given["volumes"],
        "resources": given["resources"],
        "security_context": given["securityContext"],
        "run_k8s_config": {"pod_spec_config": run["podSpecConfig"], "job_spec_config": run["jobSpecConfig"]},
    }


def _account() -> list[dict[str, Any]]:
    """The service account of daemon, web server and runs, with the role that the chart gives it."""
    all_verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
    read = ["get", "watch", "list"]
    group = "rbac.authorization.k8s.io"
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": ACCOUNT},
            "automountServiceAccountToken": False,
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "Role",
            "metadata": {"name": f"{ACCOUNT}-role"},
            "rules": [
                {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": all_verbs},
                {"apiGroups": ["batch"], "resources": ["jobs/status"], "verbs": read},
                {"apiGroups": [""], "resources": ["pods", "events"], "verbs": all_verbs},
                {"apiGroups": [""], "resources": ["pods/log", "pods/status"], "verbs": read},
            ],
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": f"{ACCOUNT}-rolebinding"},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT}],
            "roleRef": {"kind": "Role", "name": f"{ACCOUNT}-role", "apiGroup": group},
        },
    ]


def _password(values: dict[str, Any]) -> dict[str, Any]:
    reference = {"name": values["global"]["postgresqlSecretName"], "key": "postgresql-password"}
    return {"name": "DAGSTER_PG_PASSWORD", "valueFrom": {"secretKeyRef": reference}}


def _code_server(values: dict[str, Any], code: dict[str, Any]) -> dict[str, Any]:
    assert not code["includeConfigInLaunchedRuns"]["enabled"]
    image = f"{code['image']['repository']}:{code['image']['tag']}"
    port = str(code["port"])
    return {
        "securityContext": code["podSecurityContext"],
        "containers": [
            {
                "name": "dagster-user-deployments",
                "image": image,
                "imagePullPolicy": code["image"]["pullPolicy"],
                "args": ["dagster", "api", "grpc", "-h", "0.0.0.0", "-p", port, *code["dagsterApiGrpcArgs"]],
                "env": [{"name": "DAGSTER_CURRENT_IMAGE", "value": image}, _password(values), *code["env"]],
                "securityContext": code["securityContext"],
                "resources": code["resources"],
                "volumeMounts": code["volumeMounts"],
                "readinessProbe": {
                    "exec": {"command": ["dagster", "api", "grpc-health-check", "-p", port]},
                    "periodSeconds": 20,
                    "timeoutSeconds": 10,
                    "successThreshold": 1,
                    "failureThreshold": 15,
                },
            }
        ],
        "volumes": code["volumes"],
    }


def _dagster_pod(values: dict[str, Any], section: str, image: str, command: str) -> dict[str, Any]:
    """A pod of Dagster's own image: the section `dagsterDaemon` or `dagsterWebserver` of the values."""
    given = values[section]
    probe = {"readinessProbe": given["readinessProbe"]} if "readinessProbe" in given else {}
    return {
        "serviceAccountName": ACCOUNT,
        "automountServiceAccountToken": True,
        "securityContext": given["podSecurityContext"],
        "containers": [
            {
                "name": "dagster",
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["/bin/bash", "-c", command],
                "env": [_password(values), *given.get("env", ())],
                "securityContext": given["securityContext"],
                "resources": given["resources"],
                "volumeMounts": [
                    {"name": "dagster-instance", "mountPath": f"{HOME}/dagster.yaml", "subPath": "dagster.yaml"},
                    {"name": "dagster-workspace-yaml", "mountPath": "/dagster-workspace/"},
                ],
                **probe,
            }
        ],
        "volumes": [
            {"name": "dagster-instance", "configMap": {"name": INSTANCE}},
            {"name": "dagster-workspace-yaml", "configMap": {"name": WORKSPACE}},
        ],
    }
