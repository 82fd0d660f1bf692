/** A caller's view of an act in progress. */
export interface Attachment<Outcome, Progress> {
  /** Rejects when the act could not begin, or was interrupted; the next caller then begins another one. */
  readonly outcome: Promise<Outcome>;
  /** Its current progress; undefined while there is none. */
  progress(): Progress | undefined;
  /** Stops waiting. The act continues. */
  leave(): void;
}

/** A running act's view of its callers. */
export interface ActRun<Progress> {
  /** False when all callers have left: then an act that has not begun must not begin. */
  wanted(): boolean;
  report(progress: Progress): void;
}

/** Prevents concurrent acts on the same thing. */
export interface SingleActs<Outcome, Progress> {
  /**
   * Joins the act in progress on `key`, or begins it as soon as no other act of its lane is in progress. `operation`
   * identifies the caller: if the same one comes back after its act has ended, it gets that outcome, and nothing
   * begins.
   */
  join(
    key: string,
    who: { readonly operation: string; readonly lane: string },
    begin: (run: ActRun<Progress>) => Promise<Outcome>,
  ): Attachment<Outcome, Progress>;
}
