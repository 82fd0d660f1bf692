import type { Logger } from 'pino';

/** Our manifests set a grace period of 10 s after SIGTERM; the rest is for the exit itself. */
const allStepsMs = 9_500;

export interface StopStep {
  /** The name in the log. */
  readonly name: string;
  /** Called once; the signal aborts when the step is no longer waited for. */
  readonly stop: (signal: AbortSignal) => void | Promise<void>;
  /** The limit of this step; by default what is left of the 10 s. */
  readonly deadlineMs?: number;
}

export interface Shutdown {
  /** Aborts as soon as the shutdown begins; the reason is an Error with the text given to `begin`. */
  readonly signal: AbortSignal;
  /** Adds a step. Steps run in the order in which they were added, including those added during the shutdown. */
  add(step: StopStep): void;
  /** Begins the shutdown; later calls join the first. The process exits with the code of the first call. */
  begin(reason: string, exitCode: number): Promise<void>;
}

export interface ShutdownOptions {
  readonly log: Logger;
  /** Where signals and errors arrive, and what exits: this process, except in tests. */
  readonly process?: Pick<NodeJS.Process, 'on' | 'exit'>;
  readonly allStepsMs?: number;
}

/**
 * Shuts this process down in order on SIGTERM and SIGINT, within 10 s whatever the steps do; a second signal exits at
 * once. An uncaught error is logged, and the process exits with code 1, as its state can no longer be trusted.
 */
export function shutdownOnSignals({ log, process: self = process, ...options }: ShutdownOptions): Shutdown {
  const abort = new AbortController();
  const steps: StopStep[] = [];
  let ending: Promise<void> | undefined;
  let endsAtMs = 0;

  async function runStep(step: StopStep): Promise<void> {
    const startedAtMs = performance.now();
    const deadlineMs = Math.max(0, Math.min(step.deadlineMs ?? Number.POSITIVE_INFINITY, endsAtMs - startedAtMs));
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(new Error(`not done within ${Math.round(deadlineMs)} ms`)), deadlineMs);
    const tooLate = new Promise<never>((_, reject) => {
      late.signal.addEventListener('abort', () => reject(late.signal.reason), { once: true });
    });
    try {
      await Promise.race([Promise.resolve(late.signal).then(step.stop), tooLate]);
      log.debug({ step: step.name, ms: Math.round(performance.now() - startedAtMs) }, 'Stopped');
    } catch (error) {
      log.warn({ step: step.name, err: error }, `Cannot stop ${step.name} gracefully`);
    } finally {
      clearTimeout(timer);
    }
  }

  async function end(reason: string, exitCode: number): Promise<void> {
    const startedAtMs = performance.now();
    endsAtMs = startedAtMs + (options.allStepsMs ?? allStepsMs);
    log.info({ reason, exitCode }, 'Stopping');
    abort.abort(new Error(reason));
    for (let step = steps.shift(); step !== undefined; step = steps.shift()) await runStep(step);
    log.info({ ms: Math.round(performance.now() - startedAtMs) }, 'Stopped');
    self.exit(exitCode);
  }

  const shutdown: Shutdown = {
    signal: abort.signal,
    add: (step) => void steps.push(step),
    begin(reason, exitCode) {
      ending ??= end(reason, exitCode);
      return ending;
    },
  };

  for (const name of ['SIGTERM', 'SIGINT'] as const) {
    self.on(name, () => {
      if (ending === undefined) return void shutdown.begin(name, 0);
      log.warn({ reason: name }, 'Stopping at once: second signal');
      self.exit(1);
    });
  }
  for (const name of ['unhandledRejection', 'uncaughtException'] as const) {
    self.on(name, (error: unknown) => {
      log.fatal({ err: error }, `Ending: ${name}`);
      self.exit(1);
    });
  }
  return shutdown;
}
