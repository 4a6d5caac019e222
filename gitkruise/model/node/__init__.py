"""Facts of the objects between controllers and node agents, and of containers on a node.

`recreate_request` is a ContainerRecreateRequest, `node_image` a NodeImage, `pull_job` an
ImagePullJob and an ImageListPullJob; `containers` is what a container runtime reports. All are read
in v1beta1, the stored version, and shared by controllers (`planner.node`), the node agent and the
embedded cluster.

What follows from them is decided in `planner.node`; invalid specs are rejected in `admission`.
"""
