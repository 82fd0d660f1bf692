/** How to reach Temporal. */
export interface TemporalPlace {
  readonly address: string;
  readonly namespace: string;
  /** Absent: plain text. */
  readonly tls?: {
    readonly caFile?: string;
    /** PEM text instead of a file; no option gives it. */
    readonly ca?: string;
    readonly certFile?: string;
    readonly keyFile?: string;
    readonly serverName?: string;
  };
  readonly apiKeyFile?: string;
}
