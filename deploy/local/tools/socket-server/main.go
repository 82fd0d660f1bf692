// Socket-server is a sidecar for tests of hot upgrades: an HTTP server that hands its listening socket to its successor
// in the twin container, and serves the connections that it has accepted to their end. Its commands are those of the
// container, of its postStart hook and of its preStop hook: serve, wait, drain. The idle container runs them, too.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	address = ":8080"
	// On a volume that both containers have.
	handOverSocket = "/hand-over/listener.sock"
	servingFile    = "/hand-over/serving"
	// In the container's own file system.
	drainSocket = "/drain.sock"
	imageFile   = "/image-version"
)

// The versions that Windlass gives the container and its twin: 0 is the idle one, and a twin of 0 means no swap.
var version, twin = number("SIDECARSET_VERSION"), number("SIDECARSET_VERSION_ALT")

func main() {
	log.SetFlags(log.Lmicroseconds)
	if len(os.Args) != 2 {
		log.Fatal("Usage: socket-server serve|wait|drain")
	}
	var err error
	switch command := os.Args[1]; {
	case command == "serve":
		err = serve()
	case version == 0: // nothing to wait for, and nothing to drain
	case command == "wait":
		err = wait()
	case command == "drain":
		err = drain()
	default:
		err = fmt.Errorf("there is no command %q", command)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func number(name string) int64 {
	value, err := strconv.ParseInt(os.Getenv(name), 10, 64)
	if err != nil {
		log.Fatalf("Cannot read %s: %v", name, err)
	}
	return value
}

// serve runs until SIGTERM. It listens unless it is idle, or was replaced and restarted meanwhile.
func serve() error {
	terminated, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if version == 0 || twin > version {
		<-terminated.Done()
		return nil
	}

	server := &http.Server{Handler: handler()}
	drained := make(chan struct{})
	if err := answerDrain(server, drained); err != nil {
		return err
	}
	listener, predecessor, err := listen()
	if err != nil {
		return err
	}
	go func() {
		// ends with the listener, which is closed when the successor serves
		log.Printf("No longer accepting: %v", server.Serve(listener))
	}()
	if err := offer(listener); err != nil {
		return err
	}
	if predecessor != nil {
		// from now on the predecessor accepts nothing
		_, err = predecessor.Write([]byte("serving"))
		log.Printf("Took over: %v", err)
		predecessor.Close()
	}
	if err := os.WriteFile(servingFile, []byte(strconv.FormatInt(version, 10)), 0o644); err != nil {
		return err
	}
	select {
	case <-terminated.Done():
		return server.Shutdown(context.Background())
	case <-drained:
		<-terminated.Done()
		return nil
	}
}

// listen takes over the socket of the twin in a swap. It opens one of its own otherwise, or if there is nobody to take it
// from. The connection it returns waits for the word that this process serves.
func listen() (net.Listener, *net.UnixConn, error) {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if twin != 0 {
			listener, predecessor, err := takeOver()
			if err == nil {
				return listener, predecessor, nil
			}
			log.Printf("Cannot take over: %v", err)
		}
		listener, err := net.Listen("tcp", address)
		if err == nil || time.Now().After(deadline) {
			return listener, nil, err
		}
	}
}

// takeOver receives the listening socket as a file descriptor.
func takeOver() (net.Listener, *net.UnixConn, error) {
	predecessor, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: handOverSocket})
	if err != nil {
		return nil, nil, err
	}
	listener, err := receive(predecessor)
	if err != nil {
		predecessor.Close()
		return nil, nil, err
	}
	return listener, predecessor, nil
}

func receive(from *net.UnixConn) (net.Listener, error) {
	from.SetReadDeadline(time.Now().Add(5 * time.Second))
	rights := make([]byte, syscall.CmsgSpace(4))
	_, size, _, _, err := from.ReadMsgUnix(make([]byte, 1), rights)
	if err != nil {
		return nil, err
	}
	messages, err := syscall.ParseSocketControlMessage(rights[:size])
	if err != nil || len(messages) != 1 {
		return nil, errors.Join(errors.New("no file descriptor was sent"), err)
	}
	descriptors, err := syscall.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(descriptors[0]), "listener")
	defer file.Close() // the listener has a copy
	return net.FileListener(file)
}

// offer gives the listening socket to whoever connects, and closes it here when the other one serves. Both accept
// connections in between, so none is refused. A successor that ends before it serves changes nothing.
func offer(listener net.Listener) error {
	own := filepath.Join(filepath.Dir(handOverSocket), fmt.Sprintf("%d.sock", version))
	if err := os.RemoveAll(own); err != nil {
		return err
	}
	offers, err := net.ListenUnix("unix", &net.UnixAddr{Name: own})
	if err != nil {
		return err
	}
	offers.SetUnlinkOnClose(false)
	go func() {
		for {
			successor, err := offers.AcceptUnix()
			if err != nil {
				return
			}
			err = handOver(listener, successor)
			successor.Close()
			log.Printf("Handed over: %v", err)
			if err == nil {
				offers.Close()
				listener.Close()
				return
			}
		}
	}()
	// replaces the socket of the predecessor
	return os.Rename(own, handOverSocket)
}

func handOver(listener net.Listener, successor *net.UnixConn) error {
	raw, err := listener.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	// not File() and Fd(): they would make the socket blocking, for both processes
	var sent error
	err = raw.Control(func(descriptor uintptr) {
		_, _, sent = successor.WriteMsgUnix([]byte{0}, syscall.UnixRights(int(descriptor)), nil)
	})
	if err := errors.Join(err, sent); err != nil {
		return err
	}
	_, err = io.ReadFull(successor, make([]byte, len("serving")))
	return err
}

// handler answers `POD IMAGE`. With the parameter `upTo`, a number of seconds, the answer takes at least half of them.
func handler() http.Handler {
	pod, _ := os.Hostname()
	image, err := os.ReadFile(imageFile)
	if err != nil {
		log.Fatal(err)
	}
	text := fmt.Sprintf("%s %s", pod, strings.TrimSpace(string(image)))
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		upTo, _ := strconv.ParseFloat(request.URL.Query().Get("upTo"), 64)
		end := time.Now().Add(time.Duration(upTo * (1 + rand.Float64()) / 2 * float64(time.Second)))
		fmt.Fprintln(writer, text)
		for time.Now().Before(end) {
			if err := http.NewResponseController(writer).Flush(); err != nil {
				log.Printf("Lost a client: %v", err)
				return
			}
			time.Sleep(min(time.Second/2, time.Until(end)))
			fmt.Fprintln(writer)
		}
	})
}

// wait returns when the process of this container serves.
func wait() error {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		text, err := os.ReadFile(servingFile)
		if err == nil && string(text) == strconv.FormatInt(version, 10) {
			return nil
		}
	}
	return errors.New("the server does not serve")
}

// answerDrain drains the server when somebody connects, and closes the connection when the last request has its answer.
func answerDrain(server *http.Server, drained chan<- struct{}) error {
	if err := os.RemoveAll(drainSocket); err != nil {
		return err
	}
	drains, err := net.Listen("unix", drainSocket)
	if err != nil {
		return err
	}
	go func() {
		hook, err := drains.Accept()
		if err != nil {
			return
		}
		startedAt := time.Now()
		err = server.Shutdown(context.Background())
		log.Printf("Drained after %v: %v", time.Since(startedAt), err)
		hook.Close()
		close(drained)
	}()
	return nil
}

// drain returns when the process of this container has drained.
func drain() error {
	server, err := net.Dial("unix", drainSocket)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, server)
	return err
}
