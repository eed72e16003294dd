package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Responses that are computed after their request was answered.

// errCancelled is the failure of work whose client has cancelled it.
var errCancelled = errors.New("the response was cancelled")

// respondLater stores the response as queued, starts its computation and answers.
func (s *Server) respondLater(c *call, work *responseWork) error {
	if err := s.requireModel(c, work); err != nil {
		return err
	}
	work.body.Status = statusQueued
	queued, err := work.stored()
	if err != nil {
		return err
	}
	later := c.later()
	queued.cancel = later.cancel
	writer := newResponseWriter(work.body)
	if work.request.Stream {
		work.events = newEventLog()
		queued.events = work.events
		writer.send = s.logged(work, c.key.Owner)
	}
	if err := s.stored.put(work.body.ID, c.key.Owner, queued); err != nil {
		later.leave()
		return err
	}
	if err := writer.announce("response.created", "response.queued"); err != nil {
		later.leave()
		return err
	}
	go s.respondInBackground(later, work, writer)
	if work.request.Stream {
		return work.events.follow(c.r.Context(), c, 0, c.heartbeat()) // the work has the deadline
	}
	return answer(c, queued.body)
}

// logged returns a function that adds an event to the log of a response.
func (s *Server) logged(work *responseWork, owner string) func(kind string, value interface{}) error {
	return func(kind string, value interface{}) error {
		if err := work.events.add(kind, value); err != nil {
			return err
		}
		s.stored.remeasure(work.body.ID, owner)
		return nil
	}
}

// requireModel refuses a model that the configuration lacks, so that the client learns of it at once.
func (s *Server) requireModel(c *call, work *responseWork) error {
	if work.request.Model == "" {
		return invalid("model", "model is missing; GET /v1/models lists the models")
	}
	resolved, failure := c.config.resolve(routedRequest{name: work.request.Model, owner: c.key.Owner,
		promptBytes: len(work.generation.Messages), requests: s.admission.numRunning()}, &routeShares{})
	if failure != nil {
		return failure
	}
	if !c.key.mayUse(resolved) {
		return notFound("model_not_found", "there is no model %q for this key; GET /v1/models lists its models", work.request.Model)
	}
	return nil
}

// later returns a call that goes on after its request was answered, with the same deadline. It takes over the
// bytes of the body, and holds the permit until leave.
func (c *call) later() *call {
	ctx, cancel := context.WithCancel(context.Background())
	if deadline, has := c.ctx.Deadline(); has {
		ctx, cancel = context.WithDeadline(context.Background(), deadline)
	}
	c.permit.retain()
	out := &call{exchange: &exchange{id: c.id, began: time.Now()}, server: c.server, r: c.r, ctx: ctx, cancel: cancel,
		key: c.key, permit: c.permit, config: c.config, bodyBytes: c.bodyBytes}
	c.bodyBytes = 0
	return out
}

func (c *call) leave() {
	c.end()
	c.cancel()
	c.permit.release()
}

func (s *Server) respondInBackground(c *call, work *responseWork, writer *responseWriter) {
	defer c.leave()
	if work.events != nil {
		defer work.events.end(nil)
	}
	err := s.compute(c, work, writer)
	if err != nil && !errors.Is(err, errCancelled) {
		if err = s.keepFailure(c, work, err); err == nil {
			err = writer.announce("response.failed")
		}
	}
	if errors.Is(err, errCancelled) {
		work.body.Status = statusCancelled
	}
	s.logLater(c, work)
}

// logLater logs the end of a background response; the line of its request was written at its beginning.
func (s *Server) logLater(c *call, work *responseWork) {
	line := Fields{"request": c.id, "response": work.body.ID, "status": work.body.Status, "model": c.traced.model,
		"owner": c.key.Owner, "seconds": time.Since(c.began).Seconds()}
	if usage := work.body.Usage; usage != nil {
		line["prompt_tokens"], line["cached_tokens"] = usage.InputTokens, usage.InputDetails.Cached
		line["new_tokens"] = usage.OutputTokens
	}
	s.log.Info("background response", line)
}

// keepFailure stores that a response failed. It returns errCancelled if that was because of the client.
func (s *Server) keepFailure(c *call, work *responseWork, failure error) error {
	work.body.Output = []interface{}{}
	work.body.setFailed(renamed(failure, responsesNames))
	stored, err := work.stored()
	if err == nil {
		err = s.replace(c.key.Owner, stored)
	}
	if !errors.Is(err, errCancelled) && failureOf(failure).Status >= http.StatusInternalServerError {
		s.log.Error("a background response failed", Fields{"request": c.id, "response": work.body.ID,
			"error": failure.Error()})
	}
	return err
}

// compute runs a response to its end. A panic only ends that response.
func (s *Server) compute(c *call, work *responseWork, writer *responseWriter) (err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("a response failed inside the server: %v", problem)
		}
	}()
	stream, err := s.start(c, work)
	if err != nil {
		return err
	}
	defer stream.Close()
	work.body.Status = statusInProgress
	begun, err := work.stored()
	if err != nil {
		return err
	}
	begun.cancel = c.cancel
	if err := s.replace(c.key.Owner, begun); err != nil {
		return err
	}
	if err := writer.announce("response.in_progress"); err != nil {
		return err
	}
	writer.keep = func() error { return s.keep(c.key.Owner, work) }
	if err = writer.answer(c, stream); err == nil {
		s.account(c, []Result{writer.result})
	}
	return err
}

// replace stores the next state of a background response, unless it was cancelled or deleted.
func (s *Server) replace(owner string, next *storedResponse) error {
	content, err := s.stored.change(next.id, owner, func(old storedContent) (storedContent, error) {
		if stored, is := old.(*storedResponse); !is || stored.status == statusCancelled {
			return nil, errCancelled
		}
		return next, nil
	})
	if err == nil && content == nil {
		return errCancelled
	}
	return err
}

// cancelResponse ends the work on a background response. A response that has ended stays as it is.
func (s *Server) cancelResponse(id, owner string) (interface{}, error) {
	var ended func()
	content, err := s.stored.change(id, owner, func(old storedContent) (storedContent, error) {
		stored, is := old.(*storedResponse)
		if !is {
			return nil, noResponse(id)
		}
		if !stored.background {
			return nil, invalid("background", "the response %q is not a background response, which alone can be cancelled", id)
		}
		if !stored.isRunning() {
			return stored, nil
		}
		ended = stored.cancel
		return stored.cancelled()
	})
	if err != nil {
		return nil, err
	}
	if content == nil {
		return nil, noResponse(id)
	}
	if ended != nil {
		ended()
	}
	return content.(*storedResponse).body, nil
}

func (r *storedResponse) cancelled() (*storedResponse, error) {
	var body map[string]json.RawMessage
	if err := json.Unmarshal(r.body, &body); err != nil {
		return nil, err
	}
	body["status"] = json.RawMessage(`"` + statusCancelled + `"`)
	text, err := json.Marshal(body)
	out := *r
	out.status, out.body, out.cancel = statusCancelled, text, nil
	return &out, err
}
