# One image for every process: the binary, certificates and time zones; no shell, not root.
FROM golang:1.26-trixie AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o /chorus ./cmd/chorus

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /chorus /chorus
USER 65532:65532
ENTRYPOINT ["/chorus"]
