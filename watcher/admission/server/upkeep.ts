import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { CertificateKeeper, ServedCertificates } from './certificates.ts';
import type { RegistrationPass } from './registrations.ts';

/**
 * Keeps certificates and registrations as they should be, in passes: take the certificates that are due, serve them,
 * then tell the API server. A pass runs when something that it looks at has changed, when a certificate is due, and at
 * least every minute.
 */

export interface UpkeepOptions {
  readonly keeper: CertificateKeeper;
  /** Begins to serve these. Called when they differ from the ones before, and first of all. */
  readonly serve: (certificates: ServedCertificates) => void | Promise<void>;
  /** Makes every registration trust this bundle; throws when one does not. */
  readonly register: (bundle: string, signal: AbortSignal) => Promise<RegistrationPass>;
  readonly log: Pick<Logger, 'info' | 'warn'>;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly everyMs?: number;
  /** Between two passes that both had something to do; grows while somebody else keeps writing against us. */
  readonly pauseMs?: number;
}

const everyMsUsually = 60_000;
const pauseMsUsually = 200;
const longestPauseMs = 30_000;

export class Upkeep {
  readonly #options: UpkeepOptions;
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;
  #wakeUp = new AbortController();
  #served: ServedCertificates | undefined;
  #seenEverywhere: string | undefined;
  #trouble: string | undefined;
  #isRegistered = false;

  constructor(options: UpkeepOptions) {
    this.#options = options;
  }

  /** Begins with a first pass at once. */
  start(): void {
    this.#running ??= this.#run();
  }

  /** Something has changed: the next pass is due soon. */
  wake(): void {
    this.#wakeUp.abort();
  }

  /** True after the first pass in which everything was as it should be. */
  get isRegistered(): boolean {
    return this.#isRegistered;
  }

  /** What is served now; undefined until the certificates have been read once. */
  get served(): ServedCertificates | undefined {
    return this.#served;
  }

  /** Why the last pass failed; undefined while all is well. */
  get trouble(): string | undefined {
    return this.#trouble;
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error('Admission is being stopped'));
    this.wake();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { log, everyMs = everyMsUsually, pauseMs = pauseMsUsually } = this.#options;
    // Passes in a row that failed, or that had to write what the one before had written already.
    let restless = 0;
    while (!this.#stop.signal.aborted) {
      this.#wakeUp = new AbortController();
      const pause = () => Math.min(pauseMs * 2 ** restless, longestPauseMs);
      try {
        const { written, lookAgainAtMs } = await this.#pass();
        restless = written > 0 ? restless + 1 : 0;
        this.#trouble = undefined;
        this.#isRegistered = true;
        await this.#rest(pause());
        await this.#restUnlessWoken(Math.min(everyMs, lookAgainAtMs - this.#options.now()));
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        restless += 1;
        this.#trouble = error instanceof Error ? error.message : String(error);
        log.warn({ err: error, pauseMs: pause() }, 'Cannot reconcile certificates and webhook configurations');
        await this.#rest(pause());
      }
    }
  }

  async #pass(): Promise<{ readonly written: number; readonly lookAgainAtMs: number }> {
    const { keeper, serve, register, log } = this.#options;
    const signal = this.#stop.signal;
    const certificates = await keeper.refresh(this.#seenEverywhere, signal);
    const before = this.#served;
    if (certificates.certificate !== before?.certificate || certificates.key !== before.key) {
      await serve(certificates);
      log.info({}, before === undefined ? 'Serving certificates' : 'Serving new certificates');
    }
    this.#served = certificates;
    const trustedBefore = this.#seenEverywhere;
    this.#seenEverywhere = undefined;
    const { written } = await register(certificates.bundle, signal);
    if (trustedBefore !== certificates.bundle)
      log.info({ written }, 'Webhook configurations trust the served certificates');
    this.#seenEverywhere = certificates.bundle;
    return { written, lookAgainAtMs: certificates.lookAgainAtMs };
  }

  async #rest(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#stop.signal }).catch(() => undefined);
  }

  async #restUnlessWoken(ms: number): Promise<void> {
    if (ms <= 0) return;
    await sleep(ms, undefined, { signal: this.#wakeUp.signal }).catch(() => undefined);
  }
}
