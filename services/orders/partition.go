package orders

import "encoding/binary"

// partitionOf returns the partition in which Kafka's own clients, and so cdc, put a record of this key:
// murmur2 of the key, without sign, by the number of partitions.
func partitionOf(key string, partitions int) int32 {
	return int32(int(murmur2([]byte(key))&0x7fffffff) % partitions)
}

// murmur2 is org.apache.kafka.common.utils.Utils.murmur2.
func murmur2(data []byte) uint32 {
	const m = 0x5bd1e995
	h := uint32(0x9747b28c) ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := binary.LittleEndian.Uint32(data) * m
		h = h*m ^ (k^k>>24)*m
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(data[0])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}
