package debezium

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"chorus/cdc/connect"
)

// binaryText is a binary.handling.mode that makes text; nil for bytes.
func binaryText(mode string) func([]byte) string {
	switch mode {
	case "base64":
		return base64.StdEncoding.EncodeToString
	case "base64-url-safe":
		return base64.URLEncoding.EncodeToString
	case "hex":
		return hex.EncodeToString
	}
	return nil
}

// Names of the logical types that table.field.event.timestamp takes.
const (
	milliTimestamp = "io.debezium.time.Timestamp"
	microTimestamp = "io.debezium.time.MicroTimestamp"
	nanoTimestamp  = "io.debezium.time.NanoTimestamp"
	zonedTimestamp = "io.debezium.time.ZonedTimestamp"
)

// What an infinite timestamp becomes, in microseconds, and an infinite date, in
// days: PostgreSQL's own number for it, counted from 1970 with an overflow.
const (
	infinity         = 9223372036825200000
	negativeInfinity = -9223372036832400000

	infiniteDate         = -2147472692
	negativeInfiniteDate = -2147472691
)

func (k kinds) temporal(t Type) (*connect.Schema, convert) {
	of := func(s connect.Type, name string) *connect.Schema {
		return &connect.Schema{Type: s, Name: name, Version: 1}
	}
	precision := 6
	if t.Mod >= 0 {
		precision = int(t.Mod)
	}
	switch t.OID {
	case oidDate:
		return of(connect.Int32, "io.debezium.time.Date"), days
	case oidTime:
		switch {
		case k.time == "nanoseconds":
			return of(connect.Int64, "io.debezium.time.NanoTime"), clock(func(micros int64) any { return micros * 1000 })
		case k.time == "adaptive" && precision <= 3:
			return of(connect.Int32, "io.debezium.time.Time"), clock(func(micros int64) any { return int32(micros / 1000) })
		}
		return of(connect.Int64, "io.debezium.time.MicroTime"), clock(func(micros int64) any { return micros })
	case oidTimestamp:
		switch {
		case k.time == "nanoseconds":
			return of(connect.Int64, nanoTimestamp), timestamp(nanos)
		case strings.HasPrefix(k.time, "adaptive") && precision <= 3:
			return of(connect.Int64, milliTimestamp), timestamp(func(micros int64) any { return floorDiv(micros, 1000) })
		}
		return of(connect.Int64, microTimestamp), timestamp(func(micros int64) any { return micros })
	case oidTimestamptz:
		return of(connect.String, zonedTimestamp), zoned(precision)
	case oidTimetz:
		return of(connect.String, "io.debezium.time.ZonedTime"), zonedTime
	}
	return of(connect.Int64, "io.debezium.time.MicroDuration"), interval
}

// nanos is a time in nanoseconds, null when that is no number of 64 bits. An
// infinite one is the greatest or least number.
func nanos(micros int64) any {
	switch {
	case micros == infinity:
		return int64(math.MaxInt64)
	case micros == negativeInfinity:
		return int64(math.MinInt64)
	case micros > math.MaxInt64/1000 || micros < math.MinInt64/1000:
		return nil
	}
	return micros * 1000
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// instant reads a date with or without a time of the day, in UTC, and BC.
func instant(text string) (time.Time, error) {
	date, bc := strings.CutSuffix(text, " BC")
	year, rest, _ := strings.Cut(date, "-")
	y, err := strconv.Atoi(year)
	if err != nil {
		return time.Time{}, fmt.Errorf("date %q", text)
	}
	layout := "2006-01-02"
	if strings.Contains(rest, " ") {
		layout = "2006-01-02 15:04:05"
	}
	// The package reads four digits of a year; 2000 has all its days.
	at, err := time.Parse(layout, "2000-"+rest)
	if err != nil {
		return time.Time{}, fmt.Errorf("date %q", text)
	}
	if bc {
		y = 1 - y
	}
	return time.Date(y, at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), at.Nanosecond(), time.UTC), nil
}

func days(b []byte) (any, error) {
	switch string(b) {
	case "infinity":
		return int32(infiniteDate), nil
	case "-infinity":
		return int32(negativeInfiniteDate), nil
	}
	at, err := instant(string(b))
	return int32(floorDiv(at.Unix(), 24*60*60)), err
}

func timestamp(of func(micros int64) any) convert {
	return func(b []byte) (any, error) {
		switch string(b) {
		case "infinity":
			return of(infinity), nil
		case "-infinity":
			return of(negativeInfinity), nil
		}
		at, err := instant(string(b))
		return of(at.UnixMicro()), err
	}
}

// clock reads a time of the day; 24:00:00 is the end of one.
func clock(of func(micros int64) any) convert {
	return func(b []byte) (any, error) {
		micros, err := clockMicros(string(b))
		return of(micros), err
	}
}

func clockMicros(text string) (int64, error) {
	fail := fmt.Errorf("time %q", text)
	sign := int64(1)
	if rest, negative := strings.CutPrefix(text, "-"); negative {
		sign, text = -1, rest
	}
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return 0, fail
	}
	h, err1 := strconv.ParseInt(parts[0], 10, 64)
	m, err2 := strconv.ParseInt(parts[1], 10, 64)
	whole, fraction, _ := strings.Cut(parts[2], ".")
	s, err3 := strconv.ParseInt(whole, 10, 64)
	f, err4 := strconv.ParseInt((fraction + "000000")[:6], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
		return 0, fail
	}
	return sign * (((h*60+m)*60+s)*1e6 + f), nil
}

// zoned prints a timestamptz, which PostgreSQL prints in UTC, with as many
// digits of a second as the column has.
func zoned(precision int) convert {
	return func(b []byte) (any, error) {
		text := string(b)
		if text == "infinity" || text == "-infinity" {
			return text, nil
		}
		at, err := instant(strings.Replace(text, "+00", "", 1))
		if err != nil {
			return nil, err
		}
		layout := "-01-02T15:04:05"
		if precision > 0 {
			layout += "." + strings.Repeat("0", precision)
		}
		return isoYear(at.Year()) + at.Format(layout) + "Z", nil
	}
}

// isoYear is a year as ISO 8601 has it in Java: more than four digits have a sign.
func isoYear(y int) string {
	switch {
	case y > 9999:
		return fmt.Sprintf("+%d", y)
	case y < 0:
		return fmt.Sprintf("-%04d", -y)
	}
	return fmt.Sprintf("%04d", y)
}

// zonedTime prints a timetz in UTC.
func zonedTime(b []byte) (any, error) {
	text := string(b)
	i := strings.LastIndexAny(text, "+-")
	if i < 0 {
		return nil, fmt.Errorf("time %q has no zone", text)
	}
	micros, err := clockMicros(text[:i])
	if err != nil {
		return nil, err
	}
	zone := strings.Split(text[i+1:], ":")
	for len(zone) < 3 {
		zone = append(zone, "00")
	}
	offset, err := clockMicros(strings.Join(zone, ":"))
	if err != nil {
		return nil, err
	}
	if text[i] == '-' {
		offset = -offset
	}
	const day = 24 * 60 * 60 * 1_000_000
	if micros == day && offset == 0 {
		return "24:00:00Z", nil
	}
	micros = ((micros-offset)%day + day) % day
	at := time.UnixMicro(micros).UTC()
	return strings.TrimSuffix(at.Format("15:04:05.999999"), ".") + "Z", nil
}

// interval approximates an interval in microseconds: a month has the days of an
// average one.
func interval(b []byte) (any, error) {
	var months, days, micros float64
	words := strings.Fields(string(b))
	for i := 0; i < len(words); i++ {
		if strings.Contains(words[i], ":") {
			n, err := clockMicros(strings.TrimPrefix(words[i], "+"))
			if err != nil {
				return nil, err
			}
			micros = float64(n)
			continue
		}
		n, err := strconv.ParseFloat(words[i], 64)
		if err != nil || i+1 == len(words) {
			return nil, fmt.Errorf("interval %q", b)
		}
		i++
		switch unit := strings.TrimSuffix(words[i], "s"); unit {
		case "year":
			months += 12 * n
		case "mon":
			months += n
		case "day":
			days += n
		default:
			return nil, fmt.Errorf("interval %q", b)
		}
	}
	const daysPerMonth = 365.25 / 12
	return int64((months*daysPerMonth+days)*24*60*60*1e6 + micros), nil
}
