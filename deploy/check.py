#!/usr/bin/env python3
"""Checks the files of this folder by the programs that read them.

    deploy/check.py          promtool reads the alerts and Prometheus's configuration, docker compose its two files
    deploy/check.py --run    builds the image, runs compose/devnet.yml, asks its nodes, Prometheus and Grafana
                             how they are, and removes all of it again

Without --run a program that is not there is named and passed over. The exit code is 1 if something is wrong.
"""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
COMPOSE = ["docker", "compose", "-f", "compose/devnet.yml"]
NODES = [f"http://127.0.0.1:{port}" for port in range(5052, 5056)]
PROMETHEUS = "http://127.0.0.1:9090"
GRAFANA = "http://127.0.0.1:3000"

# From here on duties, votes and a finalised block have been seen, and rates have two samples.
SETTLED_SLOT = 8
WAIT_S = 240


class CheckFailed(Exception):
    """A check does not hold; the message says which."""


def call(*words, check=True, **options):
    done = subprocess.run(words, cwd=HERE, text=True, **options)
    if check and done.returncode != 0:
        raise CheckFailed(f"{' '.join(words)}: exit code {done.returncode}")
    return done


def files():
    """What the programs say of the files; returns the names of those that are missing."""
    missing = []
    if shutil.which("promtool"):
        call("promtool", "check", "rules", "prometheus/alerts.yml")
        call("promtool", "check", "config", "--syntax-only", "prometheus/prometheus.yml")
    else:
        missing.append("promtool")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    has_docker = shutil.which("docker") is not None
    if has_docker and call("docker", "compose", "version", check=False, **quiet).returncode == 0:
        for file in ["compose/devnet.yml", "compose/metrics-host.yml"]:
            environment = {**os.environ, "ALPHORN_NET": "/tmp/net"}
            call("docker", "compose", "-f", file, "config", "--quiet", env=environment)
            print(f"docker compose takes {file}")
    else:
        missing.append("docker compose")
    return missing


def ask(url, **query):
    """The answer of an interface as JSON; CheckFailed if it is not 2xx."""
    if query:
        url += "?" + urllib.parse.urlencode(query)
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.loads(answer.read() or b"null")
    except (OSError, ValueError) as error:
        raise CheckFailed(f"{url}: {error}") from error


def wait(what, holds):
    """Waits until something holds; what it said last is part of the error."""
    end = time.monotonic() + WAIT_S
    while True:
        try:
            if holds():
                print(f"{what}: yes")
                return
            said = "no"
        except CheckFailed as failed:
            said = str(failed)
        if time.monotonic() > end:
            raise CheckFailed(f"{what}: {said} after {WAIT_S} s")
        time.sleep(2)


def value(query):
    """The number that a query of one series gives."""
    found = ask(f"{PROMETHEUS}/api/v1/query", query=query)["data"]["result"]
    if len(found) != 1:
        raise CheckFailed(f"{query}: {len(found)} series")
    return float(found[0]["value"][1])


def queries(part):
    """All queries of a dashboard."""
    if isinstance(part, dict):
        for name, inner in part.items():
            if name == "expr":
                yield inner
            else:
                yield from queries(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from queries(inner)


def dashboard():
    """Every panel's query is answered, and those of what every network does have series."""
    with open(os.path.join(HERE, "grafana/alphorn.json"), encoding="utf-8") as file:
        asked = list(queries(json.load(file)))
    empty = []
    for query in asked:
        for name, stands_for in [("$network", ".*"), ("$__rate_interval", "30s"), ("$__range", "5m")]:
            query = query.replace(name, stands_for)
        if not ask(f"{PROMETHEUS}/api/v1/query", query=query)["data"]["result"]:
            empty.append(query)
    # What never happened in a network at peace has no series: drops, reports, broadcasts.
    if 3 * len(empty) > len(asked):
        raise CheckFailed("queries without an answer: " + "; ".join(empty))
    print(f"{len(asked)} queries of the dashboard are answered, {len(asked) - len(empty)} by series")
    for query in empty:
        print(f"  no series: {query}")


def alerts():
    """Every rule can be computed, and nothing critical fires."""
    groups = ask(f"{PROMETHEUS}/api/v1/rules")["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    bad = [f"{rule['name']}: {rule.get('lastError')}" for rule in rules if rule["health"] != "ok"]
    firing = [
        alert["labels"]
        for alert in ask(f"{PROMETHEUS}/api/v1/alerts")["data"]["alerts"]
        if alert["state"] == "firing"
    ]
    if not rules or bad:
        raise CheckFailed(f"{len(rules)} rules of alerts; {bad}")
    if any(labels.get("severity") == "critical" for labels in firing):
        raise CheckFailed(f"alerts fire: {firing}")
    print(f"{len(rules)} alerts are computed; firing: {firing or 'none'}")


def run():
    try:
        call(*COMPOSE, "up", "--build", "--detach")
        for node in NODES:
            wait(f"{node} is well", lambda: ask(f"{node}/eth/v1/node/health") or True)
        wait("Prometheus reaches four nodes", lambda: value('sum(up{job="alphorn"})') == 4)
        wait("blocks are finalised", lambda: value("min(lean_latest_finalized_slot)") >= SETTLED_SLOT)
        if value('sum(alphorn_duties_total{result="missed"}) or vector(0)') > 0:
            print("duties were missed: the machine is slower than its network")
        dashboard()
        alerts()
        wait(
            "Grafana has the dashboard",
            lambda: ask(f"{GRAFANA}/api/dashboards/uid/alphorn")["dashboard"]["uid"] == "alphorn",
        )
        sources = ask(f"{GRAFANA}/api/frontend/settings")["datasources"]
        source = next(one for one in sources.values() if one["type"] == "prometheus")
        proxied = f"{GRAFANA}/api/datasources/proxy/uid/{source['uid']}/api/v1/query"
        wait("Grafana reaches Prometheus", lambda: ask(proxied, query="up")["status"] == "success")
    except BaseException:
        call(*COMPOSE, "logs", "--tail", "40", check=False)
        raise
    finally:
        call(*COMPOSE, "down", "--volumes", "--remove-orphans", check=False)


def main():
    if sys.argv[1:] not in ([], ["--run"]):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        missing = files()
        if sys.argv[1:]:
            run()
    except CheckFailed as failed:
        print(f"failed: {failed}", file=sys.stderr)
        return 1
    print("not checked, since these programs are not there: " + ", ".join(missing) if missing else "all checks hold")
    return 0


if __name__ == "__main__":
    sys.exit(main())
