"""One worker node: a containerd and a kubelet of its own, named after an address of loopback."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from release.oci import Image
from tests.node.machine import PLUGINS, cgroups, program, remove_log_links, unmount_below
from tests.node.processes import Processes

PAUSE = "localhost/pause:1"
# The longest wait after crashes: what a test is about must not wait for 10, 20, 40 s.
BACKOFF = "1s"


@dataclass
class Worker:
    """A node. Its name is its address: kubelet takes that of --hostname-override unchecked."""

    folder: Path
    name: str
    registry: str  # host:port
    kubeconfig: Path
    port: int  # kubelet's, on the node's own address
    processes: Processes

    @property
    def socket(self) -> Path:
        return self.folder / "containerd.sock"

    @property
    def cgroup(self) -> str:
        return f"gitkruise-{self.port}-{self.name}"

    def start_containerd(self) -> None:
        self.processes.spawn("containerd", program("containerd"), "-c", str(self._containerd()))
        self.processes.until("containerd answers", lambda: self.ctr("version").returncode == 0)

    def start_kubelet(self) -> None:
        self.processes.spawn(
            "kubelet", program("kubelet"),
            f"--config={self._kubelet()}", f"--kubeconfig={self.kubeconfig}",
            f"--hostname-override={self.name}", f"--root-dir={self.folder / 'kubelet'}",
            f"--cert-dir={self.folder / 'pki'}",
        )  # fmt: skip

    def load(self, reference: str, what: Image) -> None:
        """Put an image into the node's store, as if it had been pulled."""
        archive = self.folder / "image.tar"
        archive.write_bytes(what.archive(reference))
        done = self.ctr("images", "import", str(archive))
        assert done.returncode == 0, done.stderr
        archive.unlink()

    def ctr(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = (program("ctr"), "-a", str(self.socket), "-n", "k8s.io", *words)
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def end(self) -> None:
        """End kubelet, every container (they outlive their containerd), and containerd."""
        self.processes.end("kubelet")
        if "containerd" not in self.processes.running:
            self.start_containerd()  # killed by a test: its containers still run
        for task in self.ctr("tasks", "list", "-q").stdout.split():
            self.ctr("tasks", "rm", "-f", task)
        for container in self.ctr("containers", "list", "-q").stdout.split():
            self.ctr("containers", "rm", container)
        self.processes.end("containerd")

    def _containerd(self) -> Path:
        hosts = self.folder / "certs.d" / self.registry / "hosts.toml"
        hosts.parent.mkdir(parents=True, exist_ok=True)
        hosts.write_text(f'server = "http://{self.registry}"\n')
        network = self.folder / "net.d" / "10-loopback.conflist"
        network.parent.mkdir(exist_ok=True)
        plugins = [{"type": "loopback"}]  # all pods use the host's network
        network.write_text(
            json.dumps({"cniVersion": "0.4.0", "name": "loopback", "plugins": plugins})
        )
        cri = 'plugins."io.containerd.grpc.v1.cri"'
        path = self.folder / "containerd.toml"
        # A negative oom_score_adj needs CAP_SYS_RESOURCE, which a container around us may lack.
        path.write_text(f"""version = 2
root = "{self.folder}/root"
state = "{self.folder}/state"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
address = "{self.socket}"
[{cri}]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true
disable_apparmor = true
disable_tcp_service = true
[{cri}.registry]
config_path = "{self.folder}/certs.d"
[{cri}.cni]
bin_dir = "{PLUGINS}"
conf_dir = "{network.parent}"
[{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[{cri}.containerd.runtimes.runc.options]
SystemdCgroup = false
""")
        return path

    def _kubelet(self) -> Path:
        full = ("memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available")
        path = self.folder / "kubelet.yaml"
        configuration = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.name,
            "port": self.port,
            "healthzPort": 0,
            "readOnlyPort": 0,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": f"unix://{self.socket}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.cgroup}",
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,  # they would be those of the whole machine
            "resolvConf": "",
            "oomScoreAdj": 0,
            "evictionHard": dict.fromkeys(full, "0%"),  # a full disk is the developer's own
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "serializeImagePulls": False,
            "volumePluginDir": f"{self.folder}/plugins",
            "podLogsDir": f"{self.folder}/logs",
            "featureGates": {"KubeletCrashLoopBackOffMax": True},
            "crashLoopBackOff": {"maxContainerRestartPeriod": BACKOFF},
        }
        path.write_text(json.dumps(configuration))
        return path


@contextmanager
def worker(
    folder: Path, name: str, *, registry: str, kubeconfig: Path, port: int, pause: Image
) -> Iterator[Worker]:
    """A running node; its containers, mounts and cgroups are gone after the block."""
    folder.mkdir()
    node = Worker(folder, name, registry, kubeconfig, port, Processes(folder))
    (folder / "cgroup").write_text(node.cgroup)
    with ExitStack() as left:  # the last entry runs first, and each runs whatever became of others
        left.callback(remove_log_links, folder)
        left.enter_context(cgroups(node.cgroup))
        left.callback(unmount_below, folder)
        left.callback(node.end)
        node.start_containerd()
        node.load(PAUSE, pause)
        node.start_kubelet()
        yield node
