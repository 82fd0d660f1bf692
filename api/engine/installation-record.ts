// The ConfigMap in which the leading watcher publishes data for other parts of the installation: Temporal's address for
// `kubectl kruise`, and its feature gates, with which each role compares its own. It never contains credentials.

import { isJsonObject } from '../base/json.ts';
import { type FeatureGates, featureGateNames } from '../feature-gates.ts';

/** The published data. */
export interface InstallationRecord {
  /** Absent: not published. */
  readonly temporal?: PublishedTemporal;
  /** By name; another version may have other gates. */
  readonly featureGates: ReadonlyMap<string, boolean>;
}

/** Temporal's address as the watcher uses it. */
export interface PublishedTemporal {
  /** `host:port` */
  readonly address: string;
  readonly namespace: string;
  readonly tls: boolean;
  /** Absent: the host of the address. */
  readonly serverName?: string;
  /** PEM of CA certificates. Absent: the system's CAs. */
  readonly ca?: string;
}

const key = {
  address: 'temporal-address',
  namespace: 'temporal-namespace',
  tls: 'temporal-tls',
  serverName: 'temporal-tls-server-name',
  ca: 'temporal-tls-ca.pem',
  gates: 'feature-gates',
} as const;

/** The `data` of the ConfigMap. */
export function recordData(temporal: PublishedTemporal, gates: FeatureGates): Readonly<Record<string, string>> {
  const ca = certificatesIn(temporal.ca ?? '');
  return {
    [key.address]: temporal.address,
    [key.namespace]: temporal.namespace,
    [key.tls]: String(temporal.tls),
    ...(temporal.serverName !== undefined && { [key.serverName]: temporal.serverName }),
    ...(ca !== '' && { [key.ca]: ca }),
    [key.gates]: gatesText(new Map(Object.entries(gates))),
  };
}

/** Those that this version knows, as `A=true,B=false`. */
export function gatesText(gates: ReadonlyMap<string, boolean>): string {
  return featureGateNames.flatMap((gate) => (gates.has(gate) ? [`${gate}=${gates.get(gate)}`] : [])).join(',');
}

/** Parses such `data`; missing or invalid parts count as absent. */
export function readRecord(data: unknown): InstallationRecord {
  const text = (name: string): string | undefined => {
    const value = isJsonObject(data) ? data[name] : undefined;
    return typeof value === 'string' && value !== '' ? value : undefined;
  };
  const [address, serverName, ca] = [text(key.address), text(key.serverName), text(key.ca)];
  return {
    ...(address !== undefined && {
      temporal: {
        address,
        namespace: text(key.namespace) ?? 'default',
        tls: text(key.tls) === 'true',
        ...(serverName !== undefined && { serverName }),
        ...(ca !== undefined && { ca }),
      },
    }),
    featureGates: new Map(
      (text(key.gates) ?? '').split(',').flatMap((assignment): [string, boolean][] => {
        const [name = '', value] = assignment.split('=');
        return value === 'true' || value === 'false' ? [[name, value === 'true']] : [];
      }),
    ),
  };
}

/**
 * The gates that differ from the published ones, as `A=true (leading watcher: false)`; gates that only one side knows
 * are left out.
 */
export function differingGates(own: FeatureGates, { featureGates }: InstallationRecord): readonly string[] {
  return featureGateNames.flatMap((gate) => {
    const published = featureGates.get(gate);
    const differs = published !== undefined && published !== own[gate];
    return differs ? [`${gate}=${own[gate]} (leading watcher: ${published})`] : [];
  });
}

const mostCertificates = 64 * 1024;

/** A CA file may contain a key by mistake, and everybody may read what is published. */
function certificatesIn(pem: string): string {
  const found = pem.match(/-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g) ?? [];
  const text = found.map((certificate) => `${certificate}\n`).join('');
  return text.length > mostCertificates ? '' : text;
}
