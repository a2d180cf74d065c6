package cdc

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sys/unix"
)

// unpolled makes connections that are not with Go's poller. The kernel wakes it
// for each arrival, whether somebody waits or not, and a walsender writes each
// message by itself: that cost both sides more than all else they did.
func unpolled(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		s, err := detach(conn)
		if err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("take the connection to %s from the poller: %w", address, err)
		}
		return s, nil
	}
}

// detach gives a connection's socket another descriptor and closes the first,
// which takes it from the poller.
func detach(conn net.Conn) (*socket, error) {
	polled, ok := conn.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("a %T has no descriptor", conn)
	}
	raw, err := polled.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &socket{fd: -1, in: side{wake: -1}, out: side{wake: -1}, local: conn.LocalAddr(), remote: conn.RemoteAddr()}
	var failed error
	if err := raw.Control(func(fd uintptr) { s.fd, failed = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, os.NewSyscallError("dup", failed)
	}
	for _, d := range []*side{&s.in, &s.out} {
		if d.wake, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
			s.release()
			return nil, os.NewSyscallError("eventfd", err)
		}
	}
	return s, conn.Close()
}

// socket is a net.Conn that is not with Go's poller. Who waits for it keeps a
// thread.
type socket struct {
	local, remote net.Addr
	in, out       side
	closed        atomic.Bool

	use sync.RWMutex // held for reading while the descriptors are in use; Close waits for it
	fd  int
}

// side is one direction of a socket.
type side struct {
	deadline atomic.Int64 // nanoseconds after epoch; 0 for none
	wake     int          // an eventfd, which ends a wait, so that closed and deadline are looked at again

	one    sync.Mutex // one reads, or writes, at a time
	polled [2]unix.PollFd
}

// epoch makes deadlines go by the monotonic clock.
var epoch = time.Now()

func (d *side) rouse() { _, _ = unix.Write(d.wake, binary.NativeEndian.AppendUint64(nil, 1)) }

// set moves the deadline. The zero time is none.
func (d *side) set(at time.Time) {
	if at.IsZero() {
		d.deadline.Store(0)
		return
	}
	d.deadline.Store(cmp.Or(int64(at.Sub(epoch)), 1))
}

// left is how long until the deadline; negative when there is none.
func (d *side) left() (time.Duration, error) {
	at := d.deadline.Load()
	if at == 0 {
		return -1, nil
	}
	now := int64(time.Since(epoch))
	if at <= now { // compared first: the year 1 is the smallest number there is
		return 0, os.ErrDeadlineExceeded
	}
	return time.Duration(at - now), nil
}

func (s *socket) Read(b []byte) (int, error) {
	s.in.one.Lock()
	defer s.in.one.Unlock()
	n, err := s.do(&s.in, unix.POLLIN, func() (int, error) { return unix.Read(s.fd, b) })
	if n == 0 && err == nil && len(b) > 0 {
		return 0, io.EOF
	}
	return n, s.fault("read", err)
}

func (s *socket) Write(b []byte) (done int, err error) {
	s.out.one.Lock()
	defer s.out.one.Unlock()
	for done < len(b) {
		n, err := s.do(&s.out, unix.POLLOUT, func() (int, error) { return unix.Write(s.fd, b[done:]) })
		if err != nil {
			return done, s.fault("write", err)
		}
		done += n
	}
	return done, nil
}

// do tries, and waits until it is worth another try.
func (s *socket) do(d *side, event int16, try func() (int, error)) (int, error) {
	s.use.RLock()
	defer s.use.RUnlock()
	for {
		if s.closed.Load() {
			return 0, net.ErrClosed
		}
		left, err := d.left()
		if err != nil {
			return 0, err
		}
		n, err := try()
		switch err {
		case unix.EINTR:
		case unix.EAGAIN:
			if err := s.wait(d, event, left); err != nil {
				return 0, err
			}
		default:
			return max(n, 0), err
		}
	}
}

// wait returns when the socket may be ready, the deadline is over, or somebody
// has something to say.
func (s *socket) wait(d *side, event int16, left time.Duration) error {
	timeout := -1
	if left >= 0 {
		timeout = int(min(left/time.Millisecond+1, math.MaxInt32))
	}
	d.polled = [2]unix.PollFd{{Fd: int32(s.fd), Events: event}, {Fd: int32(d.wake), Events: unix.POLLIN}}
	if _, err := unix.Poll(d.polled[:], timeout); err != nil && err != unix.EINTR {
		return os.NewSyscallError("poll", err)
	}
	if d.polled[1].Revents != 0 {
		_, _ = unix.Read(d.wake, make([]byte, 8))
	}
	return nil
}

func (s *socket) fault(op string, err error) error {
	if err == nil {
		return nil
	}
	if errno, ok := err.(unix.Errno); ok {
		err = os.NewSyscallError(op, errno)
	}
	return &net.OpError{Op: op, Net: s.remote.Network(), Source: s.local, Addr: s.remote, Err: err}
}

func (s *socket) LocalAddr() net.Addr  { return s.local }
func (s *socket) RemoteAddr() net.Addr { return s.remote }

func (s *socket) SetDeadline(t time.Time) error {
	_ = s.SetReadDeadline(t)
	return s.SetWriteDeadline(t)
}

func (s *socket) SetReadDeadline(t time.Time) error  { return s.setDeadline(&s.in, t) }
func (s *socket) SetWriteDeadline(t time.Time) error { return s.setDeadline(&s.out, t) }

func (s *socket) setDeadline(d *side, t time.Time) error {
	s.use.RLock()
	defer s.use.RUnlock()
	if s.closed.Load() {
		return s.fault("set", net.ErrClosed)
	}
	d.set(t)
	d.rouse()
	return nil
}

// Close ends what reads or writes.
func (s *socket) Close() error {
	if s.closed.Swap(true) {
		return s.fault("close", net.ErrClosed)
	}
	s.in.rouse() // nobody else closes them
	s.out.rouse()
	s.use.Lock()
	defer s.use.Unlock()
	s.release()
	return nil
}

func (s *socket) release() {
	for _, fd := range []int{s.fd, s.in.wake, s.out.wake} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	s.fd, s.in.wake, s.out.wake = -1, -1, -1
}
