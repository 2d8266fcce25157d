-- Who works at the frontier. Returns msgpack.

return cmsgpack.pack(workers_here())
