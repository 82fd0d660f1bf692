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
 * The certificates of admission: one authority of our own signs one certificate, and a store that all replicas share
 * keeps both. Each pass reads the store, decides the one step that is due, and writes it; the loser of a race reads
 * again and takes what the winner wrote.
 *
 * A new authority comes in three steps, so that the API server trusts at any moment what any replica serves:
 *
 *     trusted      old   →   new and old   →   new and old   →   new
 *     signs        old   →   old           →   new           →   new
 *
 * The second arrow is only taken after every registration has been seen with both and some time has passed.
 */

/** What is wanted of the certificates. Build it with `certificatePolicy`, which refuses what cannot work. */
export interface CertificatePolicy {
  /** DNS names and addresses by which the API server and this process itself reach admission; the first is the CN. */
  readonly hosts: readonly string[];
  readonly lifetimeSeconds: number;
  readonly renewBeforeSeconds: number;
  /** An authority is followed by a new one when it has less than this left. */
  readonly renewAuthorityBeforeSeconds: number;
  /** How long a new authority is trusted everywhere before a certificate of it is served. */
  readonly settleSeconds: number;
  /** How long an authority stays trusted after nothing that it signed is served any more. */
  readonly overlapSeconds: number;
}

/** What a process serves and what the API server has to trust, as PEM texts. */
export interface ServedCertificates {
  readonly certificate: string;
  readonly key: string;
  readonly bundle: string;
  /** When the next step is due, as far as that is known now. */
  readonly lookAgainAtMs: number;
}

/** What a store keeps: PEM texts by file name, and when they last changed. */
export interface StoredFiles {
  readonly files: Readonly<Record<string, string | undefined>>;
  /** 0 where nobody has said. */
  readonly changedAtMs: number;
  /** To be handed back with a write. Absent: there is nothing yet, and a write creates. */
  readonly version?: string;
}

/** Where replicas share certificates. */
export interface CertificateStore {
  /** For messages: `Secret "kruise-system/kruise-webhook-certs"`. */
  readonly name: string;
  read(signal: AbortSignal): Promise<StoredFiles>;
  /** Answers false when somebody else has written since `version` was read. */
  write(next: StoredFiles, signal: AbortSignal): Promise<boolean>;
}

export const authorityName = 'webhook-cert-ca';
const yearSeconds = 365 * 86_400;
/** Certificates begin this long before they are made, for API servers whose clock is behind. */
const backdateMs = 300_000;

/** The policy for a lifetime and the time before its end at which renewal is due. */
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
    // FG-19: an authority is used until a year before its end; a shorter one until its certificate is due.
    renewAuthorityBeforeSeconds: Math.max(renewBeforeSeconds, Math.min(yearSeconds, lifetimeSeconds / 10)),
    settleSeconds: Math.min(30, renewBeforeSeconds / 4),
    overlapSeconds: Math.min(600, renewBeforeSeconds / 2),
  };
}

/** What a store keeps, read and found usable as far as it goes. */
export interface KeptCertificates {
  /** All of them are trusted, the first one signs. */
  readonly authorities: readonly X509Certificate[];
  readonly authorityKey: string;
  readonly certificate: X509Certificate;
  readonly key: string;
  readonly changedAtMs: number;
}

/** What to do with the kept certificates now. */
export type CertificateStep =
  | { readonly kind: 'keep'; readonly untilMs: number }
  /** Nothing that is kept can be served. Usable authorities stay trusted. */
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
    // In the middle of a change of authority, which has to end before another one may begin.
    // Sooner where what is served now ends soon.
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

/** Why the certificate cannot be served at all; one that is merely due to be renewed can. */
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

/** Reads what a store keeps; undefined when there is nothing or when it cannot be read as certificates. */
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

/** Makes what a step asks for. Only `keep` leaves everything as it is. */
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

/** A new authority that signs, in front of those that are trusted already and have not ended. */
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
    // A common name has room for 64 characters; clients read the hosts.
    commonName: (policy.hosts[0] ?? 'localhost').slice(0, 64),
    hosts: policy.hosts,
    usages: ['server'],
    // Clients check the whole chain, so a certificate is worth nothing after the end of its authority.
    validity: validity(nowMs, Math.min(nowMs + policy.lifetimeSeconds * 1000, endOf(first))),
  });
  const [certificate] = certificatesIn(issued.certificate);
  if (certificate === undefined) throw new Error('Cannot read the certificate that was just issued');
  return { authorities, authorityKey, certificate, key: issued.key, changedAtMs: nowMs };
}

function validity(nowMs: number, endMs: number): Validity {
  return { notBefore: new Date(nowMs - backdateMs), notAfter: new Date(endMs) };
}

/** Gives a process its certificates, pass by pass. */
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

/** Keeps certificates that Windlass makes itself (FG-19). */
export function ownCertificates({ store, policy, now, onStep }: KeeperOptions): CertificateKeeper {
  let last: KeptCertificates | undefined;

  return {
    async refresh(seenEverywhere, signal) {
      for (let attempt = 0; attempt < attempts; attempt += 1) {
        // Losers of a race do not all come back at the same moment.
        if (attempt > 0) await sleep(Math.random() * 20 * 2 ** attempt, undefined, { signal });
        const stored = await store.read(signal);
        const nowMs = now();
        let kept = readKept(stored);
        let step = nextCertificateStep({ kept, policy, seenEverywhere, nowMs });
        const fromMemory = nextCertificateStep({ kept: last, policy, seenEverywhere, nowMs });
        if (step.kind === 'startAnew' && fromMemory.kind !== 'startAnew') {
          // Emptied by hand, by accident or for a new authority: either way what is trusted everywhere is still served.
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

/** Only reads what somebody else keeps under `ca.crt`, `tls.crt` and `tls.key` (FG-22), whatever it is worth. */
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
