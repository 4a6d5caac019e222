"""The installed command as a user runs it: processes, sockets, real git, real time."""
