package connect

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// AppendDouble appends a float64 as Java's Double.toString prints it.
func AppendDouble(dst []byte, f float64) []byte { return appendFloat(dst, f, 64) }

// AppendFloat appends a float32 as Java's Float.toString prints it.
func AppendFloat(dst []byte, f float32) []byte { return appendFloat(dst, float64(f), 32) }

// appendFloat prints the shortest digits that give the number back, at least
// two of them, plainly from 10^-3 to below 10^7 and with an exponent elsewhere.
func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "NaN"...)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	case f == 0 && math.Signbit(f):
		return append(dst, "-0.0"...)
	case f == 0:
		return append(dst, "0.0"...)
	}
	text := strconv.FormatFloat(f, 'e', -1, bits)
	if mantissa, _, _ := strings.Cut(text, "e"); len(strings.TrimPrefix(mantissa, "-")) == 1 {
		text = strconv.FormatFloat(f, 'e', 1, bits) // of two digits the nearest
	}
	mantissa, exponent, _ := strings.Cut(text, "e")
	if strings.HasPrefix(mantissa, "-") {
		dst = append(dst, '-')
		mantissa = mantissa[1:]
	}
	digits := strings.Replace(mantissa, ".", "", 1)
	e, _ := strconv.Atoi(exponent)
	if e < -3 || e >= 7 {
		dst = append(dst, digits[0], '.')
		dst = append(dst, orZero(strings.TrimRight(digits[1:], "0"))...)
		dst = append(dst, 'E')
		return strconv.AppendInt(dst, int64(e), 10)
	}
	digits = strings.TrimRight(digits, "0")
	if e < 0 {
		dst = append(dst, "0."...)
		dst = append(dst, strings.Repeat("0", -e-1)...)
		return append(dst, digits...)
	}
	for len(digits) < e+1 {
		digits += "0"
	}
	dst = append(dst, digits[:e+1]...)
	dst = append(dst, '.')
	return append(dst, orZero(digits[e+1:])...)
}

func orZero(s string) string {
	if s == "" {
		return "0"
	}
	return s
}

// ParseDecimal reads a decimal number as PostgreSQL prints it; ok is false for
// NaN and the infinities.
func ParseDecimal(text string) (d Decimal, ok bool) {
	whole, fraction, _ := strings.Cut(text, ".")
	n, ok := new(big.Int).SetString(whole+fraction, 10)
	return Decimal{Unscaled: n, Scale: len(fraction)}, ok
}

// String is BigDecimal.toString: plain unless the number is very small or its
// scale negative.
func (d Decimal) String() string {
	digits := new(big.Int).Abs(d.Unscaled).String()
	sign := ""
	if d.Unscaled.Sign() < 0 {
		sign = "-"
	}
	adjusted := -d.Scale + len(digits) - 1
	if d.Scale >= 0 && adjusted >= -6 {
		return d.Plain()
	}
	text := sign + digits[:1]
	if len(digits) > 1 {
		text += "." + digits[1:]
	}
	if adjusted != 0 {
		text += "E"
		if adjusted > 0 {
			text += "+"
		}
		text += strconv.Itoa(adjusted)
	}
	return text
}

// Plain is BigDecimal.toPlainString.
func (d Decimal) Plain() string {
	digits := new(big.Int).Abs(d.Unscaled).String()
	switch {
	case d.Scale < 0 && d.Unscaled.Sign() != 0:
		digits += strings.Repeat("0", -d.Scale)
	case d.Scale > 0:
		if len(digits) <= d.Scale {
			digits = strings.Repeat("0", d.Scale-len(digits)+1) + digits
		}
		digits = digits[:len(digits)-d.Scale] + "." + digits[len(digits)-d.Scale:]
	}
	if d.Unscaled.Sign() < 0 {
		digits = "-" + digits
	}
	return digits
}

// Rescale gives the number another scale; ok is false when digits would go.
func (d Decimal) Rescale(scale int) (Decimal, bool) {
	if scale == d.Scale {
		return d, true
	}
	ten := big.NewInt(10)
	if scale > d.Scale {
		p := new(big.Int).Exp(ten, big.NewInt(int64(scale-d.Scale)), nil)
		return Decimal{new(big.Int).Mul(d.Unscaled, p), scale}, true
	}
	p := new(big.Int).Exp(ten, big.NewInt(int64(d.Scale-scale)), nil)
	q, r := new(big.Int).QuoRem(d.Unscaled, p, new(big.Int))
	return Decimal{q, scale}, r.Sign() == 0
}

// Stripped is without zeros at the end of the fraction.
func (d Decimal) Stripped() Decimal {
	ten, r := big.NewInt(10), new(big.Int)
	for d.Scale > 0 {
		q := new(big.Int)
		if q.QuoRem(d.Unscaled, ten, r); r.Sign() != 0 {
			break
		}
		d = Decimal{q, d.Scale - 1}
	}
	return d
}

// TwosComplement is BigInteger.toByteArray of the unscaled number.
func (d Decimal) TwosComplement() []byte {
	n := d.Unscaled
	if n.Sign() >= 0 {
		b := n.Bytes()
		if len(b) == 0 || b[0]&0x80 != 0 {
			b = append([]byte{0}, b...)
		}
		return b
	}
	length := n.BitLen()/8 + 1
	limit := new(big.Int).Lsh(big.NewInt(1), uint(length*8))
	b := new(big.Int).Add(limit, n).Bytes()
	for len(b) > 1 && b[0] == 0xff && b[1]&0x80 != 0 {
		b = b[1:]
	}
	return b
}
