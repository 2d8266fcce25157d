-- Which attempts of items Redis does not know, or knows to be over. ARGV: {id, number of the attempt} each (msgpack).
-- Returns their places among these.

return items.unknown(cmsgpack.unpack(ARGV[1]))
