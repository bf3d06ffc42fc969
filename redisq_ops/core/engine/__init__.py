"""What every queue of ours is made of: the protocol, its reads, its shared Lua steps."""
