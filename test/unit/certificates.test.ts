import 'reflect-metadata';
import { createPrivateKey, generateKeyPairSync, webcrypto } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { BasicConstraintsExtension, X509CertificateGenerator } from '@peculiar/x509';
import fc from 'fast-check';
import { kubeResource } from '../../api/core/well-known.ts';
import {
  type CertificatePolicy,
  type CertificateStep,
  carryOut,
  certificatePolicy,
  externalCertificates,
  type KeptCertificates,
  nextCertificateStep,
  ownCertificates,
  readKept,
} from '../../webhook/server/certificates.ts';
import { secretStore } from '../../webhook/server/secret-store.ts';
import {
  bundleOf,
  certificatesIn,
  endOf,
  hasIssued,
  issueCertificate,
  keyFits,
  speaksFor,
} from '../../webhook/server/x509.ts';
import { MemoryCluster, type SeenCall } from '../support/fake-api/memory-cluster.ts';

const day = 86_400_000;
const year = 365 * day;
const start = Date.parse('2026-11-21T12:00:00Z');
const secret = { namespace: 'kruise-system', name: 'kruise-webhook-certs' };
const hosts = ['kruise-webhook-service.kruise-system.svc', '10.88.0.1', 'localhost', '127.0.0.1'];
const signal = new AbortController().signal;

const longLived = certificatePolicy({
  hosts,
  lifetimeSeconds: (10 * year) / 1000,
  renewBeforeSeconds: (180 * day) / 1000,
});
const shortLived = certificatePolicy({ hosts, lifetimeSeconds: 60, renewBeforeSeconds: 20 });

async function made(policy: CertificatePolicy, nowMs = start): Promise<KeptCertificates> {
  return await carryOut({ kind: 'startAnew', because: 'test' }, undefined, policy, nowMs);
}

function stepAt(
  kept: KeptCertificates,
  policy: CertificatePolicy,
  nowMs: number,
  seenEverywhere?: string,
): CertificateStep {
  return nextCertificateStep({ kept, policy, seenEverywhere, nowMs });
}

function files(cluster: MemoryCluster): Record<string, string> {
  const data =
    (cluster.look(kubeResource.secrets, secret) as { data?: Record<string, string> } | undefined)?.data ?? {};
  return Object.fromEntries(Object.entries(data).map(([name, text]) => [name, Buffer.from(text, 'base64').toString()]));
}

describe('certificates that Windlass makes', () => {
  it('FG-19: an authority webhook-cert-ca signs a certificate for the Service, the host and localhost', async () => {
    const kept = await made(longLived);
    const [authority] = kept.authorities;
    expect(authority?.subject).toBe('CN=webhook-cert-ca');
    expect(authority?.ca).toBe(true);
    expect(kept.certificate.subject).toBe('CN=kruise-webhook-service.kruise-system.svc');
    expect(kept.certificate.ca).toBe(false);
    for (const host of hosts) expect(speaksFor(kept.certificate, host)).toBe(true);
    expect(speaksFor(kept.certificate, 'elsewhere')).toBe(false);
    expect(keyFits(kept.certificate, kept.key)).toBe(true);
    expect(authority && hasIssued(authority, kept.certificate)).toBe(true);
    expect(endOf(kept.certificate) - start).toBe(10 * year);
    expect(Date.parse(kept.certificate.validFrom)).toBeLessThan(start);
  });

  it('FG-19: renews the certificate 180 days before its end, and its authority a year before', async () => {
    const kept = await made(longLived);
    expect(stepAt(kept, longLived, start + 9 * year - day)).toMatchObject({ kind: 'keep', untilMs: start + 9 * year });
    expect(stepAt(kept, longLived, start + 9 * year)).toMatchObject({ kind: 'addAuthority' });

    // A CA that is still valid, as after an earlier renewal.
    const [authority] = (await made(longLived, start + 3 * year)).authorities;
    const younger = await made(longLived, start + 3 * year);
    expect(authority).toBeDefined();
    const old = await issueCertificate({
      authority: { certificate: bundleOf(younger.authorities), key: younger.authorityKey },
      commonName: hosts[0] ?? '',
      hosts,
      usages: ['server'],
      validity: { notBefore: new Date(start), notAfter: new Date(start + 10 * year) },
    });
    const [certificate] = certificatesIn(old.certificate);
    if (!certificate) throw new Error('no certificate');
    const mixed = { ...younger, certificate, key: old.key };
    expect(stepAt(mixed, longLived, start + 10 * year - 181 * day)).toMatchObject({ kind: 'keep' });
    const step = stepAt(mixed, longLived, start + 10 * year - 180 * day);
    expect(step).toMatchObject({ kind: 'newCertificate' });
    const renewed = await carryOut(step, mixed, longLived, start + 10 * year - 180 * day);
    expect(bundleOf(renewed.authorities)).toBe(bundleOf(younger.authorities));
    expect(endOf(renewed.certificate)).toBe(start + 13 * year);
  });

  it('FG-19: makes a new certificate at once when the present one does not speak for a host', async () => {
    const kept = await made(longLived);
    const moved = certificatePolicy({ ...longLived, hosts: [...hosts, 'webhook.example.com'] });
    const step = stepAt(kept, moved, start);
    expect(step).toEqual({ kind: 'newCertificate', because: 'it is not valid for "webhook.example.com"' });
    const next = await carryOut(step, kept, moved, start);
    expect(speaksFor(next.certificate, 'webhook.example.com')).toBe(true);
    expect(stepAt(next, moved, start)).toMatchObject({ kind: 'keep' });
  });

  it('refuses a policy that would renew before the certificate begins', () => {
    expect(() => certificatePolicy({ hosts, lifetimeSeconds: 60, renewBeforeSeconds: 60 })).toThrow(
      'Cannot renew certificates 60s before their end: they only last 60s',
    );
  });

  it('changes the authority without a moment in which what is served is not trusted everywhere', async () => {
    // 20 lifetimes with a look every second, and registrations that lag behind by three looks.
    let kept = await made(shortLived);
    let seen: string | undefined;
    const lagging: string[] = [];
    const authorities = new Set<string>();
    for (let nowMs = start; nowMs < start + 20 * 60_000; nowMs += 1000) {
      const step = stepAt(kept, shortLived, nowMs, seen);
      const next = await carryOut(step, kept, shortLived, nowMs);
      if (step.kind === 'newCertificate' || step.kind === 'keep') {
        const trusted = certificatesIn(seen ?? bundleOf(next.authorities));
        const signer = trusted.find((authority) => hasIssued(authority, next.certificate) && endOf(authority) > nowMs);
        if (signer === undefined)
          throw new Error(`${step.kind}: not trusted ${(nowMs - start) / 1000} s after the start`);
      }
      expect(step.kind).not.toBe('startAnew');
      expect(endOf(next.certificate)).toBeGreaterThan(nowMs);
      expect(next.authorities.length).toBeLessThanOrEqual(3);
      kept = next;
      authorities.add(kept.authorities[0]?.fingerprint256 ?? '');
      lagging.push(bundleOf(kept.authorities));
      seen = lagging.at(-4);
    }
    expect(authorities.size).toBeGreaterThan(10);
  });

  it('waits with a certificate of the new authority until every registration was seen with both', async () => {
    const kept = await made(shortLived);
    const dueAtMs = start + 40_000;
    const step = stepAt(kept, shortLived, dueAtMs, bundleOf(kept.authorities));
    expect(step).toMatchObject({ kind: 'addAuthority' });
    const both = await carryOut(step, kept, shortLived, dueAtMs);
    expect(both.certificate).toBe(kept.certificate);
    expect(both.authorities).toHaveLength(2);

    const settledMs = dueAtMs + shortLived.settleSeconds * 1000;
    expect(stepAt(both, shortLived, settledMs, bundleOf(kept.authorities))).toMatchObject({ kind: 'keep' });
    expect(stepAt(both, shortLived, settledMs - 1, bundleOf(both.authorities))).toMatchObject({ kind: 'keep' });
    const turn = stepAt(both, shortLived, settledMs, bundleOf(both.authorities));
    expect(turn).toMatchObject({ kind: 'newCertificate' });
    const after = await carryOut(turn, both, shortLived, settledMs);
    expect(after.authorities).toHaveLength(2);

    const dropMs = settledMs + shortLived.overlapSeconds * 1000;
    const drop = stepAt(after, shortLived, dropMs, bundleOf(after.authorities));
    expect(drop).toMatchObject({ kind: 'dropAuthorities' });
    expect((await carryOut(drop, after, shortLived, dropMs)).authorities).toHaveLength(1);
  });

  it('does not wait for longer than what is served lasts', async () => {
    const kept = await made(shortLived);
    const lateMs = start + 55_000;
    const both = await carryOut({ kind: 'addAuthority', because: 'test' }, kept, longLived, lateMs);
    const seen = bundleOf(both.authorities);
    expect(stepAt(both, longLived, lateMs, seen)).toEqual({ kind: 'keep', untilMs: lateMs + 2_500 });
    expect(stepAt(both, longLived, lateMs + 2_500, seen)).toMatchObject({ kind: 'newCertificate' });
  });

  it('starts anew when nothing can be served, and goes on trusting the authorities that are left', async () => {
    const kept = await made(longLived);
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const foreignKey = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
    const broken = { ...kept, key: foreignKey, authorityKey: foreignKey };
    const step = stepAt(broken, longLived, start);
    expect(step).toEqual({ kind: 'startAnew', because: 'its key does not fit' });
    const next = await carryOut(step, broken, longLived, start);
    expect(next.authorities.slice(1)).toEqual(kept.authorities);
    expect(stepAt(next, longLived, start)).toMatchObject({ kind: 'keep' });
  });

  it('adds an authority in order when only the key of the present one was taken away', async () => {
    const kept = { ...(await made(longLived)), authorityKey: '' };
    expect(stepAt(kept, longLived, start)).toMatchObject({ kind: 'addAuthority' });
  });

  it('goes on with the RSA authority and the PKCS#1 key of another maker', async () => {
    const algorithm = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' };
    const keys = await webcrypto.subtle.generateKey(
      { ...algorithm, modulusLength: 2048, publicExponent: new Uint8Array([1, 0, 1]) },
      true,
      ['sign', 'verify'],
    );
    const foreign = await X509CertificateGenerator.createSelfSigned({
      name: 'CN=webhook-cert-ca',
      notBefore: new Date(start - day),
      notAfter: new Date(start + 10 * year),
      signingAlgorithm: algorithm,
      keys,
      extensions: [new BasicConstraintsExtension(true, undefined, true)],
    });
    const pkcs8 = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey));
    const key = createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' });
    const authorities = certificatesIn(foreign.toString('pem'));
    const kept = {
      ...(await made(longLived)),
      authorities,
      authorityKey: key.export({ type: 'pkcs1', format: 'pem' }).toString(),
    };
    const step = stepAt(kept, longLived, start);
    expect(step).toEqual({ kind: 'newCertificate', because: 'none of the current authorities has signed it' });
    const next = await carryOut(step, kept, longLived, start);
    expect(next.authorities).toEqual(authorities);
    expect(stepAt(next, longLived, start)).toMatchObject({ kind: 'keep' });
  });

  it('reads anything that may stand in a store without throwing', () => {
    const value = fc.oneof(
      fc.string(),
      fc.constant('-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----'),
      fc.base64String().map((text) => `-----BEGIN CERTIFICATE-----\n${text}\n-----END CERTIFICATE-----\n`),
    );
    const stored = fc.record(
      { 'ca-cert.pem': value, 'ca-key.pem': value, 'tls.crt': value, 'tls.key': value, 'cert.pem': value },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(stored, (texts) => {
        const kept = readKept({ files: texts, changedAtMs: 0 });
        const step = nextCertificateStep({ kept, policy: longLived, seenEverywhere: undefined, nowMs: start });
        expect(step.kind).toBe('startAnew');
      }),
      { numRuns: 200 },
    );
  });
});

describe('the Secret that replicas share', () => {
  it('FG-19: holds authority and certificate under the names that other tools know', async () => {
    const cluster = new MemoryCluster();
    const store = secretStore(cluster.client(), secret);
    const served = await ownCertificates({ store, policy: longLived, now: () => start }).refresh(undefined, signal);
    const kept = files(cluster);
    const names = ['ca-cert.pem', 'ca-key.pem', 'cert.pem', 'key.pem', 'tls.crt', 'tls.key'];
    expect(new Set(Object.keys(kept))).toEqual(new Set(names));
    expect(kept['tls.crt']).toBe(served.certificate);
    expect(kept['cert.pem']).toBe(served.certificate);
    expect(kept['tls.key']).toBe(served.key);
    expect(kept['ca-cert.pem']).toBe(served.bundle);
  });

  it('FG-19: of two processes that start at once both serve what one of them has made', async () => {
    const cluster = new MemoryCluster();
    // Both have read before either of them creates.
    let readers = 0;
    const bothHaveRead = Promise.withResolvers<void>();
    const delay = async ({ verb }: SeenCall) => {
      if (verb !== 'get') return await bothHaveRead.promise;
      readers += 1;
      if (readers >= 2) bothHaveRead.resolve();
    };
    const keepers = [1, 2].map(() =>
      ownCertificates({ store: secretStore(cluster.client(delay), secret), policy: longLived, now: () => start }),
    );
    const [one, two] = await Promise.all(keepers.map((keeper) => keeper.refresh(undefined, signal)));
    expect(cluster.calls.filter((call) => call.startsWith('create'))).toHaveLength(2);
    expect(one?.certificate).toBe(two?.certificate);
    expect(one?.bundle).toBe(two?.bundle);
    expect(files(cluster)['tls.crt']).toBe(one?.certificate);
  });

  it('FG-19: resourceVersion settles eight processes that renew at once', async () => {
    const cluster = new MemoryCluster();
    let nowMs = start;
    const keepers = Array.from({ length: 8 }, () =>
      ownCertificates({ store: secretStore(cluster.client(), secret), policy: shortLived, now: () => nowMs }),
    );
    await Promise.all(keepers.map((keeper) => keeper.refresh(undefined, signal)));
    nowMs += 40_000;
    await Promise.all(keepers.map((keeper) => keeper.refresh(undefined, signal)));
    const served = await Promise.all(keepers.map((keeper) => keeper.refresh(undefined, signal)));
    expect(new Set(served.map(({ bundle }) => bundle)).size).toBe(1);
    // One new CA was created, not eight.
    expect(certificatesIn(served[0]?.bundle ?? '')).toHaveLength(2);
  });

  it('keeps serving when the Secret is deleted, and puts a new authority beside the one that is trusted', async () => {
    const cluster = new MemoryCluster();
    const keeper = ownCertificates({
      store: secretStore(cluster.client(), secret),
      policy: longLived,
      now: () => start,
    });
    const before = await keeper.refresh(undefined, signal);
    cluster.remove(kubeResource.secrets, secret);
    const after = await keeper.refresh(before.bundle, signal);
    expect(after.certificate).toBe(before.certificate);
    expect(after.bundle).toContain(before.bundle);
    expect(certificatesIn(files(cluster)['ca-cert.pem'] ?? '')).toHaveLength(2);
  });

  it('keeps what others have put into the Secret', async () => {
    const cluster = new MemoryCluster();
    cluster.put(kubeResource.secrets, { metadata: { ...secret, labels: { mine: 'yes' } }, data: { other: 'eA==' } });
    const keeper = ownCertificates({
      store: secretStore(cluster.client(), secret),
      policy: longLived,
      now: () => start,
    });
    await keeper.refresh(undefined, signal);
    expect(files(cluster)).toMatchObject({ other: 'x' });
    expect(cluster.look(kubeResource.secrets, secret)?.metadata.labels).toEqual({ mine: 'yes' });
  });

  it('fails with a clear message when other writers are always faster', async () => {
    const store = { name: 'Secret "a/b"', read: async () => ({ files: {}, changedAtMs: 0 }), write: async () => false };
    const keeper = ownCertificates({ store, policy: longLived, now: () => start });
    await expect(keeper.refresh(undefined, signal)).rejects.toThrow(
      'Cannot write certificates to Secret "a/b": 6 conflicts in a row',
    );
  });

  it('FG-22: external certificates are only read, whether or not they are valid', async () => {
    const cluster = new MemoryCluster();
    const keeper = externalCertificates({ store: secretStore(cluster.client(), secret) });
    await expect(keeper.refresh(undefined, signal)).rejects.toThrow(
      'Cannot read external certificates of Secret "kruise-system/kruise-webhook-certs": it lacks ca.crt, tls.crt, tls.key',
    );
    const base64 = (text: string) => Buffer.from(text).toString('base64');
    const data = { 'ca.crt': base64('A'), 'tls.crt': base64('B'), 'tls.key': base64('C') };
    cluster.put(kubeResource.secrets, { metadata: secret, data });
    expect(await keeper.refresh(undefined, signal)).toMatchObject({ bundle: 'A', certificate: 'B', key: 'C' });
    expect(cluster.calls.every((call) => call.startsWith('get'))).toBe(true);
  });
});
