# SPDX-License-Identifier: MIT
"""A real Gerrit server as tests see it: accounts, projects, changes, votes; it can be killed and started again."""

from __future__ import annotations

import base64
import http.cookiejar
import json
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from selftests.forge.gerrit_jars import jars

from rtgate.process import die_with_parent

START_S = 300.0  # 5 s on a quiet machine, a minute on a busy one
PROJECT, NO_LABEL, NO_VOTE = "rt/kernel", "no-label", "no-vote"
PASSWORDS = {name: f"{name}-secret-{uuid.uuid4().hex}" for name in ("bot", "author", "reader")}
_VALUES = {"-1": "Fails", " 0": "No score", "+1": "Verified"}
# What is indexed is on disk at once: else five minutes of changes are not found after the server was killed.
_CONFIG = """\
[gerrit]
	basePath = git
	canonicalWebUrl = http://127.0.0.1:{http}/
[index]
	type = lucene
[index "changes_open"]
	commitWithin = 0
[index "changes_closed"]
	commitWithin = 0
[auth]
	type = DEVELOPMENT_BECOME_ANY_ACCOUNT
[sendemail]
	enable = false
[sshd]
	listenAddress = 127.0.0.1:{ssh}
[httpd]
	listenUrl = http://127.0.0.1:{http}/
"""


def _port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class GerritServer:
    """A server with its site in a directory.

    Attributes:
        admin: the password of the account `admin`.
    """

    directory: Path
    http_port: int = field(default_factory=_port)
    ssh_port: int = field(default_factory=_port)
    admin: str = ""
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def ssh_config(self) -> Path:
        return self.directory / "ssh_config"

    def prepare(self) -> None:
        """Make the site, start it, and make accounts, projects and labels."""
        (self.directory / "site" / "etc").mkdir(parents=True)
        config = _CONFIG.format(http=self.http_port, ssh=self.ssh_port)
        (self.directory / "site" / "etc" / "gerrit.config").write_text(config)
        subprocess.run(
            self._argv("Init", "--batch", "--no-auto-start"), check=True, timeout=START_S, capture_output=True
        )
        self.start()
        self.admin = self._admin_password()
        self._accounts()
        for project in (PROJECT, NO_LABEL, NO_VOTE):
            self.ask("PUT", f"projects/{quote(project)}", {"create_empty_commit": True})
        for project in (PROJECT, NO_VOTE):
            self._make_label(project, "Verified", _VALUES)
        self._make_label(PROJECT, "Narrow", {" 0": "No score", "+1": "Good"})
        self._allow_votes()

    def _make_label(self, project: str, name: str, values: dict[str, str]) -> None:
        """Add a label as the page for Gerrit does."""
        label = {"function": "NoBlock", "commit_message": name, "values": values}
        self.ask("PUT", f"projects/{quote(project)}/labels/{name}", label)

    def _argv(self, program: str, *words: str) -> list[str]:
        path = ":".join(map(str, jars()))
        source = str(Path(__file__).with_name("Gerrit.java"))
        site = str(self.directory / "site")
        return ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", path, source, program, "-d", site, *words]

    def start(self) -> None:
        """Start it, if it is not running."""
        if self._process is not None and self._process.poll() is None:
            return
        log = (self.directory / "log").open("ab")
        self._process = subprocess.Popen(
            die_with_parent(self._argv("Daemon", "--console-log")), stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
        log.close()
        limit = time.monotonic() + START_S
        while not self._answers():
            assert self._process.poll() is None, (self.directory / "log").read_text()[-3000:]
            assert time.monotonic() < limit, "Gerrit did not start"
            time.sleep(0.5)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/config/server/version", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(60)
            self._process = None

    def ask(self, method: str, path: str, body: object = None, user: str = "admin") -> Any:
        """Return what Gerrit's REST API answers to a user."""
        password = self.admin if user == "admin" else PASSWORDS[user]
        header = base64.b64encode(f"{user}:{password}".encode()).decode()
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/a/{path}", data, method=method)
        request.add_header("Authorization", f"Basic {header}")
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return _json(answer.read())
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()[:500]}") from None

    def _admin_password(self) -> str:
        """Become the first account, as a person does in a browser, and make a password for it."""
        jar = http.cookiejar.CookieJar()
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
        for path in ("/login/?account_id=1000000", "/"):
            browser.open(f"{self.url}{path}", timeout=60).read()
        token = next(cookie.value for cookie in jar if cookie.name == "XSRF_TOKEN")
        request = urllib.request.Request(f"{self.url}/accounts/self/password.http", b'{"generate": true}', method="PUT")
        request.add_header("X-Gerrit-Auth", str(token))
        request.add_header("Content-Type", "application/json")
        return str(_json(browser.open(request, timeout=60).read()))

    def _accounts(self) -> None:
        key = self.directory / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        self.ssh_config.write_text(
            f"Host *\n\tIdentityFile {key}\n\tIdentitiesOnly yes\n\tIdentityAgent none\n"
            f"\tStrictHostKeyChecking no\n\tUserKnownHostsFile {self.directory / 'known_hosts'}\n\tLogLevel ERROR\n"
        )
        for name, password in PASSWORDS.items():
            account = {"name": name, "email": f"{name}@example.org", "http_password": password}
            if name == "bot":
                account |= {"ssh_key": key.with_suffix(".pub").read_text()}
            self.ask("PUT", f"accounts/{name}", account)
        self.ask("PUT", "groups/Service%20Users/members/bot", {})

    def _allow_votes(self) -> None:
        group = self.ask("GET", "groups/Service%20Users")["id"]
        rules = {group: {"action": "ALLOW", "min": -1, "max": 1}}
        permissions = {"label-Verified": {"label": "Verified", "rules": rules}}
        self.ask("POST", f"projects/{quote(PROJECT)}/access", {"add": {"refs/heads/*": {"permissions": permissions}}})

    def make_branch(self, branch: str, project: str = PROJECT) -> None:
        """Make a branch at the tip of master."""
        self.ask("PUT", f"projects/{quote(project)}/branches/{branch}", {"revision": "master"})

    def branch(self, project: str = PROJECT, branch: str = "master") -> str:
        """Return the tip of a branch."""
        return str(self.ask("GET", f"projects/{quote(project)}/branches/{branch}")["revision"])

    def change(self, number: int, user: str = "reader") -> Any:
        """Return a change as an account sees it."""
        options = "o=DETAILED_LABELS&o=DETAILED_ACCOUNTS&o=ALL_REVISIONS&o=MESSAGES"
        return self.ask("GET", f"changes/{number}?{options}", user=user)

    def votes(self, number: int, label: str = "Verified") -> dict[str, int]:
        """Return who voted what, as `reader` sees it; 0 is not a vote."""
        votes = self.change(number)["labels"].get(label, {}).get("all", ())
        return {str(one["username"]): int(one["value"]) for one in votes if one.get("value")}

    def messages(self, number: int, user: str = "bot") -> list[dict[str, Any]]:
        """Return the messages of an author, as `reader` sees them."""
        return [one for one in self.change(number)["messages"] if one.get("author", {}).get("username") == user]


@dataclass
class Author:
    """Somebody with a clone, who pushes changes."""

    server: GerritServer
    clone: Path
    project: str = PROJECT
    branch: str = "master"

    def __post_init__(self) -> None:
        header = base64.b64encode(f"author:{PASSWORDS['author']}".encode()).decode()
        self.clone.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=master")
        for key, value in {
            "user.name": "An Author",
            "user.email": "author@example.org",
            "http.extraHeader": f"Authorization: Basic {header}",
            "remote.origin.url": f"{self.server.url}/a/{self.project}",
        }.items():
            self.git("config", key, value)
        self.git("fetch", "--quiet", "origin", "master")
        self.git("checkout", "--quiet", "--force", "-B", "master", "FETCH_HEAD")

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", "-C", self.clone, *words], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def commit(self, title: str, change: str = "", *, amend: bool = False) -> str:
        """Make a commit of a change (a new one without) and return the change's identity."""
        change = change or f"I{uuid.uuid4().hex}{uuid.uuid4().hex[:8]}"
        (self.clone / "file").write_text(uuid.uuid4().hex)
        self.git("add", "file")
        more = ["--amend"] if amend else []
        self.git("commit", "--quiet", *more, "-m", title, "-m", f"Change-Id: {change}")
        return change

    def push(self, *options: str) -> int:
        """Push for review and return the number of the last change that Gerrit names."""
        return self.push_series(*options)[-1]

    def push_series(self, *options: str) -> list[int]:
        """Push for review and return the numbers of all changes that Gerrit names, in the order of the commits."""
        words = f"%{','.join(options)}" if options else ""
        said = self.git("push", "origin", f"HEAD:refs/for/{self.branch}{words}")
        return [int(number) for number in re.findall(r"/\+/(\d+)", said)]

    def head(self) -> str:
        return self.git("rev-parse", "HEAD").strip()


def _json(data: bytes) -> Any:
    return json.loads(data.removeprefix(b")]}'\n") or b"null")


def quote(name: str) -> str:
    return urllib.parse.quote(name, safe="")
