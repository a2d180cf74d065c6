package spill

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A frame is the subtransaction and the length, four bytes each, and the data.
const frameHeader = 8

func appendFrame(to []byte, sub uint32, data []byte) []byte {
	to = binary.BigEndian.AppendUint32(to, sub)
	to = binary.BigEndian.AppendUint32(to, uint32(len(data)))
	return append(to, data...)
}

var errFrame = errors.New("frame is cut off")

func splitFrames(frames []byte, take func(sub uint32, data []byte) error) error {
	for len(frames) > 0 {
		if len(frames) < frameHeader {
			return errFrame
		}
		sub, n := binary.BigEndian.Uint32(frames), int(binary.BigEndian.Uint32(frames[4:]))
		frames = frames[frameHeader:]
		if n > len(frames) {
			return errFrame
		}
		if err := take(sub, frames[:n:n]); err != nil {
			return err
		}
		frames = frames[n:]
	}
	return nil
}

// readFrames reads frames of that many bytes in all. Its memory is the largest
// frame, besides the buffer of r.
func readFrames(r *bufio.Reader, size int64, take func(sub uint32, data []byte) error) error {
	var header [frameHeader]byte
	var data []byte
	for size > 0 {
		if _, err := io.ReadFull(r, header[:]); err != nil {
			return cut(err)
		}
		sub, n := binary.BigEndian.Uint32(header[:]), int64(binary.BigEndian.Uint32(header[4:]))
		if size -= frameHeader + n; size < 0 {
			return errFrame
		}
		if int64(cap(data)) < n {
			data = make([]byte, n)
		}
		data = data[:n]
		if _, err := io.ReadFull(r, data); err != nil {
			return cut(err)
		}
		if err := take(sub, data); err != nil {
			return err
		}
	}
	return nil
}

func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	return err
}
