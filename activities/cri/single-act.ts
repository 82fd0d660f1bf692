/** An act that is under way, as one of those sees it who wait for it. */
export interface Attachment<Outcome, Progress> {
  /** Rejects when the act could not be begun, or broke off; the next to join then begins anew. */
  readonly outcome: Promise<Outcome>;
  /** What it is doing, undefined while it has not said. */
  progress(): Progress | undefined;
  /** Waits no longer. The act goes on. */
  leave(): void;
}

/** What an act knows about those who wait for it. */
export interface ActRun<Progress> {
  /** False when everybody has left: then what has not begun must not begin. */
  wanted(): boolean;
  report(progress: Progress): void;
}

/** Keeps acts on one thing from running beside each other. */
export interface SingleActs<Outcome, Progress> {
  /**
   * Joins the act that is under way on `key`, or begins it as soon as no other of its lane is under way. `operation`
   * tells who asks: the same one, coming back after its act has ended, gets that outcome and begins nothing.
   */
  join(
    key: string,
    who: { readonly operation: string; readonly lane: string },
    begin: (run: ActRun<Progress>) => Promise<Outcome>,
  ): Attachment<Outcome, Progress>;
}
