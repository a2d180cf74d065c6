package cdc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"chorus/cdc/wal"
)

// stream is a connection that replicates. One goroutine receives and another
// one confirms, which pgconn does not allow, so the connection is taken over
// from it when replication has begun: what comes is read from frames, what goes
// is written by pgproto3's Frontend.
type stream struct {
	conn     net.Conn
	frontend *pgproto3.Frontend
	reader   *patientReader
}

// message is either a change (Data) or a keepalive (Data is nil).
type message struct {
	Data  []byte  // valid until the next receive, and the receiver's to change
	End   wal.LSN // of a keepalive: up to where the server has looked through its log
	Reply bool    // of a keepalive: the server wants to hear from us, or it hangs up
}

// connectReplication opens a connection that takes replication commands.
func connectReplication(ctx context.Context, dsn string, silence time.Duration) (*pgconn.PgConn, *patientReader, error) {
	cfg, err := pgconn.ParseConfig(dsn)
	if err != nil {
		return nil, nil, err
	}
	cfg.ConnectTimeout = answer
	for key, value := range map[string]string{
		"replication":      "database",
		"application_name": "chorus cdc",
		// The forms in which the server prints values, whatever the role's or
		// the database's settings are.
		"client_encoding": "UTF8",
		"DateStyle":       "ISO",
		"TimeZone":        "UTC",
		"bytea_output":    "hex",
		"IntervalStyle":   "postgres",
		// A stream, and the transaction that reads the first rows, last.
		"statement_timeout":                   "0",
		"idle_in_transaction_session_timeout": "0",
	} {
		cfg.RuntimeParams[key] = value
	}
	reader := &patientReader{silence: silence}
	reader.frames = newFrames(reader)
	cfg.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		reader.source = r
		return pgproto3.NewFrontend(reader.frames, w)
	}
	cfg.DialFunc = unpolled(cfg.DialFunc)
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	return conn, reader, nil
}

// streamOptions say what is to be replicated.
type streamOptions struct {
	slot, publication string
	from              wal.LSN
	messages          bool // logical decoding messages, too
	binary            bool // values come in binary form where their types have one
	unended           bool // large transactions come before they end, for the receiver to keep
}

// startStream begins to replicate on conn and takes it over.
func startStream(ctx context.Context, conn *pgconn.PgConn, reader *patientReader, o streamOptions) (*stream, error) {
	options := pglogrepl.StartReplicationOptions{
		Mode:       pglogrepl.LogicalReplication,
		PluginArgs: []string{"publication_names " + quoteLiteral(quoteIdentifier(o.publication))},
	}
	version := serverVersion(conn)
	if o.unended && version >= 14 {
		options.PluginArgs = append(options.PluginArgs, "proto_version '2'", "streaming 'on'")
	} else {
		options.PluginArgs = append(options.PluginArgs, "proto_version '1'")
	}
	if o.binary && version >= 14 {
		options.PluginArgs = append(options.PluginArgs, "binary 'true'")
	}
	if o.messages && version >= 14 {
		options.PluginArgs = append(options.PluginArgs, "messages 'true'")
	}
	began := time.Now()
	if err := pglogrepl.StartReplication(ctx, conn, o.slot, pglogrepl.LSN(o.from), options); err != nil {
		return nil, err
	}
	taken, err := conn.Hijack()
	if err != nil {
		return nil, err
	}
	reader.watch(taken.Conn, began)
	return &stream{conn: taken.Conn, frontend: taken.Frontend, reader: reader}, nil
}

// serverVersion is the major version; 0 when it is not told.
func serverVersion(conn *pgconn.PgConn) int {
	text := conn.ParameterStatus("server_version") // "15.13 (Debian …)", "19beta1"
	end := strings.IndexFunc(text+".", func(r rune) bool { return r < '0' || r > '9' })
	v, _ := strconv.Atoi(text[:end])
	return v
}

// receive waits for the next message. It fails with errSilent when the server
// says nothing for too long although it is asked to, and with
// os.ErrDeadlineExceeded after interrupt; after the latter receive may be
// called again.
func (s *stream) receive() (message, error) {
	for {
		kind, body, err := s.reader.frames.next()
		if err != nil {
			return message{}, err
		}
		switch kind {
		case 'd': // CopyData
			if out, ok, err := parse(body); ok || err != nil {
				return out, err
			}
		case 'E', 'N': // ErrorResponse, NoticeResponse
			if err := refused(kind, body); err != nil {
				return message{}, err
			}
		case 'c': // CopyDone
			return message{}, errors.New("server ended the replication")
		}
	}
}

// refused is what the server says, when it is an error or amounts to one.
func refused(kind byte, body []byte) error {
	var m pgproto3.ErrorResponse
	if err := m.Decode(body); err != nil {
		return err
	}
	// PostgreSQL 18 leaves out what was written while the publication was not
	// there, where older ones fail. A row would be lost (CDC-07).
	if kind == 'E' || m.Code == notYet {
		return pgconn.ErrorResponseToPgError(&m)
	}
	return nil
}

// parse reads the envelope of a replication message; ok is false for a kind
// that is of no interest.
func parse(data []byte) (m message, ok bool, err error) {
	const changeHeader, keepalive = 25, 18
	switch {
	case len(data) == 0:
		return m, false, errors.New("empty replication message")
	case data[0] == pglogrepl.XLogDataByteID:
		if len(data) <= changeHeader {
			return m, false, fmt.Errorf("change of %d bytes is cut off", len(data))
		}
		return message{Data: data[changeHeader:]}, true, nil
	case data[0] == pglogrepl.PrimaryKeepaliveMessageByteID:
		if len(data) < keepalive {
			return m, false, fmt.Errorf("keepalive of %d bytes is cut off", len(data))
		}
		return message{End: wal.LSN(binary.BigEndian.Uint64(data[1:])), Reply: data[keepalive-1] != 0}, true, nil
	}
	return m, false, nil
}

// confirm tells the server that everything up to the position is safe in
// Kafka. All three positions are set: a zero would be taken for the first one.
// With ask the server answers with a keepalive, which shows that it lives, and
// how far an idle slot may move.
//
// It fails with errFrozen when the last time is too long ago.
func (s *stream) confirm(at wal.LSN, ask bool) error {
	now := time.Now()
	if err := s.reader.frozen(now); err != nil {
		return err
	}
	const length = 34
	b := make([]byte, 0, length)
	b = append(b, pglogrepl.StandbyStatusUpdateByteID)
	for range 3 { // written, flushed, applied
		b = binary.BigEndian.AppendUint64(b, uint64(at))
	}
	b = binary.BigEndian.AppendUint64(b, uint64(time.Now().UnixMicro()-946684800_000_000)) // since 2000
	if ask {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	if err := s.conn.SetWriteDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return fmt.Errorf("confirm %s: %w", at, err)
	}
	s.frontend.Send(&pgproto3.CopyData{Data: b})
	if err := s.frontend.Flush(); err != nil {
		return fmt.Errorf("confirm %s: %w", at, err)
	}
	s.reader.renew(now)
	return nil
}

// close says goodbye, so that the server frees the slot at once.
func (s *stream) close() error {
	s.frontend.Send(&pgproto3.Terminate{})
	return errors.Join(s.frontend.Flush(), s.conn.Close())
}

// interrupt makes receive return now, and again at until if it is called again.
func (s *stream) interrupt(until time.Time) { s.reader.interrupt(until) }
