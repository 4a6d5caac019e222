"""The node agent: carries out what the API asks of the containers and images of one node.

`service` runs everything; `recreate` carries out ContainerRecreateRequests, `hooks` runs pre-stop
hooks, `pull` pulls the images of a NodeImage, `container_meta` reports what containers were started
with and restarts those whose environment is out of date; `rounds` is the loop of these three. `cri`
speaks to the container runtime over its unix socket.

What to do is decided in `planner.node`; the agent reads the runtime, acts, and writes status. It
stops containers and never starts one: kubelet does. Called by `cli.commands.cluster.agent`.
"""
