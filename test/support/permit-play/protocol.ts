/**
 * What the parts of a permit protocol exchange, and the two of them that are to be built: a play wires any `LeaderPart` and
 * any `OperationPart` to its model of Temporal and of the cluster.
 */

/** Which items may go, or why none may; always of the moment at which it is given. */
export type Answer = { readonly term: number } & (
  | { readonly kind: 'items'; readonly revision: string; readonly uids: readonly string[]; readonly more: boolean }
  /** Batches in flight explain that no item may go. */
  | { readonly kind: 'nothing' }
  | { readonly kind: 'wait'; readonly reason: string }
  | { readonly kind: 'done' | 'withdrawn' | 'aborted' }
);

/** Asks which items may go. */
export interface Question {
  readonly inFlight: readonly { readonly number: number; readonly uids: readonly string[] }[];
}

/** The permit to disrupt these items. */
export interface BatchRequest {
  readonly number: number;
  readonly revision: string;
  readonly uids: readonly string[];
}

export interface BatchResult {
  readonly number: number;
  /** Why an item has not got the revision; empty: it has. */
  readonly outcomes: ReadonlyMap<string, string>;
  readonly next: Answer;
}

/** `undo` takes an abort back. */
export type CommandName = 'pause' | 'resume' | 'abort' | 'undo' | 'retry';

export interface Command {
  readonly key: string;
  readonly name: CommandName;
  /** The keys of the orders that a `resume` or `undo` takes back. */
  readonly takesBack: readonly string[];
}

export interface Applied {
  readonly key: string;
  /** Not written: the API server refuses it. */
  readonly isRefused: boolean;
  readonly next: Answer;
}

/** One attempt of an activity, as its worker sees it. */
export interface Attempt<Result> {
  readonly run: string;
  /** What Temporal answers to a heartbeat. */
  readonly confirm: () => 'alive' | 'ended' | 'noAnswer';
  /** For how long it has ended, as nobody but the play knows; 0: it has not. */
  readonly endedForMs: () => number;
  readonly complete: (result: Result) => void;
  /** It is tried again. */
  readonly fail: () => void;
}

/** The permits and the planner in the leading watcher. */
export interface LeaderPart {
  readonly term: number;
  readonly next: (question: Question, attempt: Attempt<Answer>) => void;
  readonly carryOut: (batch: BatchRequest, attempt: Attempt<BatchResult>) => void;
  readonly apply: (command: Command, attempt: Attempt<Applied>) => void;
}

export type News =
  | { readonly kind: 'changed' }
  | { readonly kind: 'command'; readonly command: Command }
  | { readonly kind: 'timer'; readonly seq: number }
  | { readonly kind: 'result'; readonly seq: number; readonly result: Answer | BatchResult | Applied }
  /** The activity was ended by hand. */
  | { readonly kind: 'lost'; readonly seq: number };

/** What the loop of the operation can do; activities and timers have numbers that are the same when it is replayed. */
export interface OperationPorts {
  readonly next: (question: Question) => number;
  readonly carryOut: (batch: BatchRequest) => number;
  readonly apply: (command: Command) => number;
  readonly timer: (ms: number) => number;
  readonly cancel: (seq: number) => void;
}

/** The loop of the operation: a function of what it has received. */
export interface OperationPart {
  /** One workflow task: everything received since the last one. The answer says whether the run goes on. */
  readonly take: (news: readonly News[]) => 'goesOn' | 'ends' | 'handsOver';
  /** From outside: the history is long, or there is another version of the code. */
  isHandOverDue: boolean;
  readonly handOver: () => unknown;
}

/** What one of the parts does differently from what the protocol has become: each was shown to be needed by a play. */
export interface Rules {
  /** A permit of another run ends those of the last one only after Temporal has confirmed its attempt. */
  readonly runsAreConfirmed: boolean;
  /** `resume` and `undo` take back orders by their keys, those included that are not written yet. */
  readonly takenBackByKey: boolean;
  /** An order stands until its own key is taken back, whichever is written first; else the last one written replaces it. */
  readonly ordersStandByKey: boolean;
  /** An answer pays for all items that may go, not only for those that it names. */
  readonly answersPayAll: boolean;
  /** An answer that came to nothing lasts longer the next time. */
  readonly answersLast: boolean;
  /** After a batch of which every write was refused nothing of the object is named for a while. */
  readonly refusalsRest: boolean;
  /** An order that is refused is tried again later and later. */
  readonly ordersRest: boolean;
  /** A hold that is not written ends with the run that brought it. */
  readonly holdsEndWithRun: boolean;
}

export const rules: Rules = {
  runsAreConfirmed: true,
  takenBackByKey: true,
  ordersStandByKey: true,
  answersPayAll: true,
  answersLast: true,
  refusalsRest: true,
  ordersRest: true,
  holdsEndWithRun: true,
};
