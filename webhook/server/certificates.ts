import type { X509Certificate } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  bundleOf,
  certificatesIn,
  createAuthority,
  endOf,
  hasIssued,
  issueCertificate,
  keyFits,
  speaksFor,
  type Validity,
} from './x509.ts';

/**
 * The certificates of admission: our own CA signs one certificate, and a store that all replicas share holds both. Each
 * pass reads the store, decides on the one step that is due, and writes it; after a conflict it reads again and uses
 * what the other replica wrote.
 *
 * A CA is replaced in three steps, so that the API server trusts at any moment what any replica serves:
 *
 * trusted      old   →   new and old   →   new and old   →   new
 * signs        old   →   old           →   new           →   new
 *
 * The second step is only taken after every registration has been seen with both CAs and some time has passed.
 */

/** How certificates are issued and renewed. Create it with `certificatePolicy`, which rejects impossible values. */
export interface CertificatePolicy {
  /**
   * DNS names and addresses by which the API server and this process itself reach admission; the first one is the CN.
   */
  readonly hosts: readonly string[];
  readonly lifetimeSeconds: number;
  readonly renewBeforeSeconds: number;
  /** A CA is replaced when it has less than this left. */
  readonly renewAuthorityBeforeSeconds: number;
  /** How long a new CA is trusted everywhere before a certificate signed by it is served. */
  readonly settleSeconds: number;
  /** How long a CA stays trusted after the last certificate that it signed was served. */
  readonly overlapSeconds: number;
}

/** What a process serves and what the API server has to trust, as PEM. */
export interface ServedCertificates {
  readonly certificate: string;
  readonly key: string;
  readonly bundle: string;
  /** When the next step is due, as far as known. */
  readonly lookAgainAtMs: number;
}

/** The content of a store: PEM by file name, and when it last changed. */
export interface StoredFiles {
  readonly files: Readonly<Record<string, string | undefined>>;
  /** 0 when unknown. */
  readonly changedAtMs: number;
  /** To be passed to `write`. Absent: the store does not exist, and a write creates it. */
  readonly version?: string;
}

/** The storage through which replicas share certificates. */
export interface CertificateStore {
  /** For messages: `Secret "kruise-system/kruise-webhook-certs"`. */
  readonly name: string;
  read(signal: AbortSignal): Promise<StoredFiles>;
  /** Returns false when another process has written since `version` was read. */
  write(next: StoredFiles, signal: AbortSignal): Promise<boolean>;
}

export const authorityName = 'webhook-cert-ca';
const yearSeconds = 365 * 86_400;
/** How far the start of a certificate's validity lies in the past, for API servers whose clock is behind. */
const backdateMs = 300_000;

/** The policy for a lifetime, and for the remaining time at which renewal is due. */
export function certificatePolicy(options: {
  readonly hosts: readonly string[];
  readonly lifetimeSeconds: number;
  readonly renewBeforeSeconds: number;
}): CertificatePolicy {
  const { lifetimeSeconds, renewBeforeSeconds } = options;
  if (renewBeforeSeconds >= lifetimeSeconds) {
    throw new Error(
      `Cannot renew certificates ${renewBeforeSeconds}s before their end: they only last ${lifetimeSeconds}s`,
    );
  }
  return {
    ...options,
    // FG-19: a CA is used until a year before its end; a shorter-lived one until its certificate is due.
    renewAuthorityBeforeSeconds: Math.max(renewBeforeSeconds, Math.min(yearSeconds, lifetimeSeconds / 10)),
    settleSeconds: Math.min(30, renewBeforeSeconds / 4),
    overlapSeconds: Math.min(600, renewBeforeSeconds / 2),
  };
}

/** The content of a store, parsed as far as it is usable. */
export interface KeptCertificates {
  /** All of them are trusted; the first one signs. */
  readonly authorities: readonly X509Certificate[];
  readonly authorityKey: string;
  readonly certificate: X509Certificate;
  readonly key: string;
  readonly changedAtMs: number;
}

/** The next step for the stored certificates. */
export type CertificateStep =
  | { readonly kind: 'keep'; readonly untilMs: number }
  /** Nothing stored can be served. Usable CAs stay trusted. */
  | { readonly kind: 'startAnew'; readonly because: string }
  | { readonly kind: 'addAuthority'; readonly because: string }
  | { readonly kind: 'newCertificate'; readonly because: string }
  | { readonly kind: 'dropAuthorities'; readonly because: string };

/** Chooses the one step that is due. `seenEverywhere` is the bundle that every registration was last seen with. */
export function nextCertificateStep(situation: {
  readonly kept: KeptCertificates | undefined;
  readonly policy: CertificatePolicy;
  readonly seenEverywhere: string | undefined;
  readonly nowMs: number;
}): CertificateStep {
  const { kept, policy, nowMs } = situation;
  if (kept === undefined) return { kind: 'startAnew', because: 'there are none' };
  const [first, ...others] = kept.authorities;
  if (first === undefined) return { kind: 'startAnew', because: 'there is no authority' };

  const canSign = keyFits(first, kept.authorityKey) && first.ca && endOf(first) > nowMs;
  const broken = whyUnusable(kept, policy, nowMs);
  if (broken !== undefined) return { kind: canSign ? 'newCertificate' : 'startAnew', because: broken };

  if (!hasIssued(first, kept.certificate)) {
    // A replacement of the CA is in progress, and has to end before another one may begin; the wait is shortened when
    // the served certificate expires soon.
    const leftMs = Math.max(0, endOf(kept.certificate) - kept.changedAtMs);
    const settledAtMs = kept.changedAtMs + Math.min(policy.settleSeconds * 1000, leftMs / 2);
    if (situation.seenEverywhere !== bundleOf(kept.authorities)) return { kind: 'keep', untilMs: settledAtMs };
    if (nowMs < settledAtMs) return { kind: 'keep', untilMs: settledAtMs };
    if (canSign) return { kind: 'newCertificate', because: 'its new authority is trusted everywhere' };
  }

  const authorityDueAtMs = endOf(first) - policy.renewAuthorityBeforeSeconds * 1000;
  if (!canSign) return { kind: 'addAuthority', because: 'the authority cannot sign: its key does not fit' };
  if (nowMs >= authorityDueAtMs) return { kind: 'addAuthority', because: `the authority ends ${first.validTo}` };

  const certificateDueAtMs = endOf(kept.certificate) - policy.renewBeforeSeconds * 1000;
  if (nowMs >= certificateDueAtMs) {
    return { kind: 'newCertificate', because: `it ends ${kept.certificate.validTo}` };
  }

  const dropAtMs = others.length === 0 ? Number.POSITIVE_INFINITY : kept.changedAtMs + policy.overlapSeconds * 1000;
  if (nowMs >= dropAtMs)
    return { kind: 'dropAuthorities', because: 'no certificate that they signed is served any more' };
  return { kind: 'keep', untilMs: Math.min(authorityDueAtMs, certificateDueAtMs, dropAtMs) };
}

/** Why the certificate cannot be served at all; one that is due for renewal still can. */
function whyUnusable(kept: KeptCertificates, policy: CertificatePolicy, nowMs: number): string | undefined {
  const { certificate } = kept;
  const signer = kept.authorities.find((authority) => hasIssued(authority, certificate));
  if (signer === undefined) return 'none of the current authorities has signed it';
  if (endOf(signer) <= nowMs) return `its authority ended ${signer.validTo}`;
  if (endOf(certificate) <= nowMs) return `it ended ${certificate.validTo}`;
  if (!keyFits(certificate, kept.key)) return 'its key does not fit';
  const unnamed = policy.hosts.find((host) => !speaksFor(certificate, host));
  return unnamed === undefined ? undefined : `it is not valid for "${unnamed}"`;
}

/** Parses the content of a store; undefined when there is none, or it contains no valid certificates. */
export function readKept(stored: StoredFiles): KeptCertificates | undefined {
  const { files, changedAtMs } = stored;
  const key = files['tls.key'] ?? files['key.pem'];
  const text = files['tls.crt'] ?? files['cert.pem'];
  if (key === undefined || text === undefined) return undefined;
  try {
    const [certificate] = certificatesIn(text);
    if (certificate === undefined) return undefined;
    const authorities = certificatesIn(files['ca-cert.pem'] ?? '');
    return { authorities, authorityKey: files['ca-key.pem'] ?? '', certificate, key, changedAtMs };
  } catch {
    return undefined;
  }
}

function filesOf(kept: KeptCertificates): Readonly<Record<string, string>> {
  const certificate = bundleOf([kept.certificate]);
  return {
    'ca-key.pem': kept.authorityKey,
    'ca-cert.pem': bundleOf(kept.authorities),
    'key.pem': kept.key,
    'cert.pem': certificate,
    'tls.key': kept.key,
    'tls.crt': certificate,
  };
}

/** Carries out a step. `keep` changes nothing. */
export async function carryOut(
  step: CertificateStep,
  kept: KeptCertificates | undefined,
  policy: CertificatePolicy,
  nowMs: number,
): Promise<KeptCertificates> {
  const authority = () => newAuthority(policy, nowMs, kept?.authorities ?? []);
  if (kept === undefined) return await withNewCertificate(await authority(), policy, nowMs);
  switch (step.kind) {
    case 'keep':
      return kept;
    case 'startAnew':
      return await withNewCertificate(await authority(), policy, nowMs);
    case 'addAuthority':
      return { ...kept, ...(await authority()), changedAtMs: nowMs };
    case 'newCertificate':
      return await withNewCertificate(kept, policy, nowMs);
    case 'dropAuthorities':
      return { ...kept, authorities: kept.authorities.slice(0, 1), changedAtMs: nowMs };
  }
}

type Authorities = Pick<KeptCertificates, 'authorities' | 'authorityKey'>;

/** A new CA that signs, followed by the trusted ones that have not expired. */
async function newAuthority(
  policy: CertificatePolicy,
  nowMs: number,
  trusted: readonly X509Certificate[],
): Promise<Authorities> {
  const made = await createAuthority(authorityName, validity(nowMs, nowMs + policy.lifetimeSeconds * 1000));
  const authorities = [...certificatesIn(made.certificate), ...trusted.filter((other) => endOf(other) > nowMs)];
  return { authorities, authorityKey: made.key };
}

async function withNewCertificate(
  { authorities, authorityKey }: Authorities,
  policy: CertificatePolicy,
  nowMs: number,
): Promise<KeptCertificates> {
  const [first] = authorities;
  if (first === undefined) throw new Error('Cannot issue a certificate: there is no authority');
  const issued = await issueCertificate({
    authority: { certificate: bundleOf([first]), key: authorityKey },
    // A common name is limited to 64 characters; clients read the hosts.
    commonName: (policy.hosts[0] ?? 'localhost').slice(0, 64),
    hosts: policy.hosts,
    usages: ['server'],
    // Clients verify the whole chain, so a certificate is useless after the end of its CA.
    validity: validity(nowMs, Math.min(nowMs + policy.lifetimeSeconds * 1000, endOf(first))),
  });
  const [certificate] = certificatesIn(issued.certificate);
  if (certificate === undefined) throw new Error('Cannot read the certificate that was just issued');
  return { authorities, authorityKey, certificate, key: issued.key, changedAtMs: nowMs };
}

function validity(nowMs: number, endMs: number): Validity {
  return { notBefore: new Date(nowMs - backdateMs), notAfter: new Date(endMs) };
}

/** Provides a process with certificates, one pass at a time. */
export interface CertificateKeeper {
  /** Reads the store and does what is due. `seenEverywhere`: the bundle that every registration was last seen with. */
  refresh(seenEverywhere: string | undefined, signal: AbortSignal): Promise<ServedCertificates>;
}

export interface KeeperOptions {
  readonly store: CertificateStore;
  readonly policy: CertificatePolicy;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly onStep?: (step: Exclude<CertificateStep, { readonly kind: 'keep' }>) => void;
}

const attempts = 6;

/** Maintains certificates of our own CA (FG-19). */
export function ownCertificates({ store, policy, now, onStep }: KeeperOptions): CertificateKeeper {
  let last: KeptCertificates | undefined;

  return {
    async refresh(seenEverywhere, signal) {
      for (let attempt = 0; attempt < attempts; attempt += 1) {
        // A random delay, so that replicas do not conflict again.
        if (attempt > 0) await sleep(Math.random() * 20 * 2 ** attempt, undefined, { signal });
        const stored = await store.read(signal);
        const nowMs = now();
        let kept = readKept(stored);
        let step = nextCertificateStep({ kept, policy, seenEverywhere, nowMs });
        const fromMemory = nextCertificateStep({ kept: last, policy, seenEverywhere, nowMs });
        if (step.kind === 'startAnew' && fromMemory.kind !== 'startAnew') {
          // The store was emptied, by accident or to get a new CA: in both cases what is trusted everywhere is still
          // served.
          kept = last;
          step = { kind: 'addAuthority', because: `${store.name} was emptied` };
        }
        if (step.kind === 'keep' && kept !== undefined) {
          last = kept;
          return served(kept, step.untilMs);
        }

        const next = await carryOut(step, kept, policy, nowMs);
        const write: StoredFiles = {
          files: filesOf(next),
          changedAtMs: next.changedAtMs,
          ...(stored.version === undefined ? {} : { version: stored.version }),
        };
        if (!(await store.write(write, signal))) continue;
        if (step.kind !== 'keep') onStep?.(step);
        last = next;
        return served(next, nowMs);
      }
      throw new Error(`Cannot write certificates to ${store.name}: ${attempts} conflicts in a row`);
    },
  };
}

/**
 * Only reads certificates that something else maintains under `ca.crt`, `tls.crt` and `tls.key` (FG-22), without
 * judging them.
 */
export function externalCertificates({ store }: Pick<KeeperOptions, 'store'>): CertificateKeeper {
  return {
    async refresh(_seenEverywhere, signal) {
      const { files } = await store.read(signal);
      const { 'ca.crt': bundle, 'tls.crt': certificate, 'tls.key': key } = files;
      const missing = ['ca.crt', 'tls.crt', 'tls.key'].filter((name) => !files[name]);
      if (!bundle || !certificate || !key) {
        throw new Error(`Cannot read external certificates of ${store.name}: it lacks ${missing.join(', ')}`);
      }
      return { certificate, key, bundle, lookAgainAtMs: Number.POSITIVE_INFINITY };
    },
  };
}

function served(kept: KeptCertificates, lookAgainAtMs: number): ServedCertificates {
  return {
    certificate: bundleOf([kept.certificate]),
    key: kept.key,
    bundle: bundleOf(kept.authorities),
    lookAgainAtMs,
  };
}
