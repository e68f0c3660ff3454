package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/countersign/countersign/internal/demo"
	"github.com/countersign/countersign/pkg/githubsim"
)

// demoCheckName is the managed check's default name.
const demoCheckName = "Countersign / approval"

// runDemo plays the story against the stand-in and then stays up, or exits with --once.
func (d *devRun) runDemo(ctx context.Context) error {
	began := time.Now()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	secret, err := randomSecret()
	if err != nil {
		return err
	}
	sim := githubsim.New(githubsim.Options{})
	d.cleanup = append(d.cleanup, sim.Close)
	name := d.environ["COUNTERSIGN_CHECK_NAME"]
	if name == "" {
		name = demoCheckName
	}
	stage := demo.NewStage(sim, githubsim.App{WebhookURL: "http://" + listener.Addr().String() + "/webhooks/github", WebhookSecret: secret}, name)
	stage.Patience = d.stepPatience
	d.environ["COUNTERSIGN_GITHUB_API_URL"] = sim.URL()
	d.environ["COUNTERSIGN_GITHUB_APP_ID"] = fmt.Sprint(stage.World.App.ID)
	d.environ["COUNTERSIGN_GITHUB_PRIVATE_KEY"] = string(stage.World.App.PEM)
	d.environ["COUNTERSIGN_WEBHOOK_SECRET"] = secret
	for _, other := range []string{"COUNTERSIGN_GITHUB_PRIVATE_KEY_FILE", "COUNTERSIGN_WEBHOOK_SECRET_FILE"} {
		delete(d.environ, other)
	}
	if err := d.start(ctx, listener); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "Five services, Postgres and NATS are ready after %s. GitHub is the stand-in at %s.\n\n", time.Since(began).Round(10*time.Millisecond), sim.URL())
	if !d.once {
		return d.playAndStay(ctx, stage, sim.URL())
	}
	if err := d.play(ctx, stage); err != nil {
		return findings(err.Error())
	}
	return nil
}

func (d *devRun) play(ctx context.Context, stage *demo.Stage) error {
	n := 0
	return stage.Play(ctx, func(r demo.Result) {
		n++
		fmt.Fprintf(d.out, "%s  %2d  %7s  %-11s  %s\n%42s%s\n", time.Now().Format("15:04:05.000"), n, r.Took.Round(time.Millisecond), r.Status, r.Step, "", r.Title)
	})
}

// playAndStay shows the console while the story is played, and after it.
func (d *devRun) playAndStay(ctx context.Context, stage *demo.Stage, standIn string) error {
	fmt.Fprintf(d.out, "The console: http://%s\n\n", d.listen)
	played := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		err := d.play(ctx, stage)
		if err == nil {
			fmt.Fprintf(d.out, "\nThe story is over; the console stays up. End with Ctrl-C.\n")
		} else if ctx.Err() == nil {
			fmt.Fprintf(d.progress, "the story stopped: %v\n", err)
		}
		played <- err
	}()
	err := d.serve(ctx, standIn)
	cancel()
	<-played
	return err
}
