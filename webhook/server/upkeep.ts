import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { CertificateKeeper, ServedCertificates } from './certificates.ts';
import type { RegistrationPass } from './registrations.ts';

/**
 * Maintains certificates and registrations, in passes: read or renew the certificates, serve them, then update the
 * registrations. A pass runs after a change of its inputs, when a certificate is due, and at least every minute.
 */

export interface UpkeepOptions {
  readonly keeper: CertificateKeeper;
  /** Starts serving these certificates. Called at first and whenever they have changed. */
  readonly serve: (certificates: ServedCertificates) => void | Promise<void>;
  /** Updates every registration to trust this bundle; throws when one cannot be updated. */
  readonly register: (bundle: string, signal: AbortSignal) => Promise<RegistrationPass>;
  readonly log: Pick<Logger, 'info' | 'warn'>;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly everyMs?: number;
  /** Between two passes that both had to write; grows while another client keeps reverting our changes. */
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

  /** Starts with a first pass at once. */
  start(): void {
    this.#running ??= this.#run();
  }

  /** Something has changed: requests a pass soon. */
  wake(): void {
    this.#wakeUp.abort();
  }

  /** True after the first pass after which everything was up to date. */
  get isRegistered(): boolean {
    return this.#isRegistered;
  }

  /** The served certificates; undefined until they have been read once. */
  get served(): ServedCertificates | undefined {
    return this.#served;
  }

  /** Why the last pass failed; undefined when it succeeded. */
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
    // The number of passes in a row that failed, or that had to write again what the previous one had written.
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
