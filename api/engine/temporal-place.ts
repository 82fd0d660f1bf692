/** How to reach Temporal. */
export interface TemporalPlace {
  readonly address: string;
  readonly namespace: string;
  /** Absent: plain text. */
  readonly tls?: {
    readonly caFile?: string;
    /** PEM instead of a file; there is no option for it. */
    readonly ca?: string;
    readonly certFile?: string;
    readonly keyFile?: string;
    readonly serverName?: string;
  };
  readonly apiKeyFile?: string;
}
