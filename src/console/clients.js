// Lines to paste that connect a client to this server.
