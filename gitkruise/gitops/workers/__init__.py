"""Workers: processes that read repository content within limits of CPU, memory and output.

Content of a repository may come from strangers (pull requests) and may crash or exhaust a parser,
so it is read in processes without credentials. `main` is the program of a worker, `jobs` the work
that it shares with commands that need no worker. `process` is one worker as its parent sees it;
`queue` orders its jobs, `reads` sends many reads as one job, `pool` chooses the process. `frames`
are the typed answers, because the process is not trusted either.

The interface is `gitops.build.untrusted.Workers`; the work itself is `gitops.build` and
`gitops.preview`. The supervisor creates the pool; the unit reconciler, health checks and previews
send jobs.
"""
