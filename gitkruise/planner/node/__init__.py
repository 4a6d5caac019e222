"""Decisions about requests to recreate containers and about image pulls.

For a node agent: `recreate_agent` (what to do next on a container) and `pull_agent` (which tags to
pull when). For controllers: `recreate_controller`, `pull_job`, `list_pull_job` and `node_image`.
`container_meta` is the report that lets environment from metadata change in place.

The agent process that talks to a container runtime is `gitkruise.agent`; the embedded cluster plays
the same decisions in `world.kubelet`. Facts are in `model.node`.
"""
