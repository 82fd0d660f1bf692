import { Command, CommanderError } from 'commander';
import type { TemporalPlace } from '../api/engine/temporal-place.ts';
import { type FeatureGates, parseFeatureGates } from '../api/feature-gates.ts';
import { environmentOf, ignoredFlags, type Option, options, type Role } from './options.ts';

export type { Role } from './options.ts';

/** The whole configuration of a process, parsed once at its start. */
export interface Config {
  /** Absent: the pod's service account. */
  readonly kubeconfig?: string;
  /** The API server's address in the cluster; absent outside. */
  readonly inCluster?: { readonly host: string; readonly port: number };
  /** The one namespace to work in; empty: all namespaces. */
  readonly namespace: string;
  /** The namespace in which Windlass itself runs. */
  readonly podNamespace: string;
  readonly featureGates: FeatureGates;
  readonly temporal: TemporalPlace;
  /** `host:port`, `:port`, or `0` for none. Equal addresses share one listener. */
  readonly metricsAddress: string;
  readonly healthProbeAddress: string;
  readonly leaderElection: LeaderElectionConfig;
  readonly kubeQps: number;
  readonly kubeBurst: number;
  readonly logLevel: string;
  readonly webhook: WebhookConfig;
  readonly daemon: DaemonConfig;
  readonly images: ImagesConfig;
  readonly fullPassSeconds: number;
  /** The time between two heartbeats of workers. */
  readonly heartbeatSeconds: number;
  readonly engineSilentSeconds: number;
  /** Whether the leading watcher changes the versions of Temporal's worker deployment. */
  readonly manageWorkerDeployment: boolean;
  readonly engineStuckSeconds: number;
  /** Flags that were given but have no effect in this role, without dashes. The log names them once. */
  readonly ignoredFlags: readonly string[];
}

/** Leader election of the watchers. */
interface LeaderElectionConfig {
  readonly enabled: boolean;
  readonly namespace: string;
  readonly id: string;
  readonly leaseDurationSeconds: number;
  readonly renewDeadlineSeconds: number;
  readonly retryPeriodSeconds: number;
}

/** How the API server reaches the webhook, and with which certificates. */
interface WebhookConfig {
  /** Absent: the API server uses the Service. */
  readonly host?: string;
  readonly port: number;
  readonly secretName: string;
  readonly serviceName: string;
  /**
   * Only a client with a certificate of these authorities receives details of pods and nodes. Absent: clients are not
   * authenticated.
   */
  readonly clientCaFile?: string;
  readonly renewBeforeSeconds: number;
  readonly certificateLifetimeSeconds: number;
  readonly initializeTimeoutSeconds: number;
}

/** How NodeImages are maintained. */
interface ImagesConfig {
  /** A node gets its NodeImage when it has been ready for this long. */
  readonly nodeImageDelaySeconds: number;
  /** Tags of jobs of type Always are kept for this much longer than the job says. */
  readonly tagTtlSeconds: number;
  /** The namespace of the copies of pull Secrets, which daemons may read. */
  readonly secretNamespace: string;
}

/** Which node this daemon serves, and the socket of its runtime. */
interface DaemonConfig {
  /** Empty in every role but the daemon. */
  readonly nodeName: string;
  readonly socketLocation: string;
  /** Empty: all known sockets are tried. */
  readonly socketFile: string;
  /** How many images it pulls at the same time. */
  readonly pullsAtOnce: number;
  readonly credentials: NodeCredentialsConfig;
  readonly address: string;
}

/** The source of the node's own registry credentials. */
interface NodeCredentialsConfig {
  /** `mustExist`: the file was given explicitly. */
  readonly pluginConfig: { readonly file: string; readonly mustExist: boolean };
  readonly pluginFolder: string;
  /** The environment of this process, which plugins inherit as from the kubelet. */
  readonly pluginEnvironment: Readonly<Record<string, string | undefined>>;
  readonly dockerConfigFile?: string;
}

/** An invalid value; the message names the option and what it accepts. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/** `--help` was given; the message is the help text. */
export class HelpRequested extends Error {
  override readonly name = 'HelpRequested';
}

/** The configuration of this process. Exits after `--help` (0) or an invalid option (1). */
export function loadConfig(role: Role): Config {
  try {
    return parseConfig(role, process.argv.slice(2), process.env);
  } catch (error) {
    if (error instanceof HelpRequested) {
      process.stdout.write(error.message);
      process.exit(0);
    }
    if (!(error instanceof ConfigError)) throw error;
    process.stderr.write(`windlass ${role}: ${error.message}\n`);
    process.exit(1);
  }
}

/**
 * Reads every option of a role from flags, then environment, then defaults; throws a ConfigError that names the invalid
 * option. The function is long, because each field of the configuration has one line in it.
 */
export function parseConfig(role: Role, argv: readonly string[], env: NodeJS.ProcessEnv): Config {
  const flags = readFlags(role, argv);

  function read<Value>(option: Option<Value>): Value | undefined {
    const given = option.roles.includes(role) ? textOf(option, flags, env) : undefined;
    const text = given?.text ?? option.default;
    if (text === undefined) return undefined;
    const value = option.parse(text);
    if (value === undefined) throw refusal(given?.source ?? `--${option.flag}`, text, `expects ${option.expects}`);
    return value;
  }
  function need<Value>(option: Option<Value>): Value {
    const value = read(option);
    if (value === undefined)
      throw new ConfigError(`--${option.flag} is required (${environmentOf(option).join(', ')})`);
    return value;
  }

  const podNamespace = need(options.podNamespace);
  const qps = need(options.kubeQps) || (role === 'daemon' ? 20 : 200);
  const daemonAddress = need(options.daemonAddress);
  need(options.leaderLock);

  const config: Config = {
    ...optional('kubeconfig', read(options.kubeconfig)),
    ...optional('inCluster', inCluster(read(options.kubernetesServiceHost), need(options.kubernetesServicePort))),
    namespace: need(options.namespace),
    podNamespace,
    featureGates: featureGates(need(options.featureGates), env),
    temporal: {
      address: need(options.temporalAddress),
      namespace: need(options.temporalNamespace),
      ...optional('tls', temporalTls(read)),
      ...optional('apiKeyFile', read(options.temporalApiKeyFile)),
    },
    metricsAddress: role === 'daemon' ? daemonAddress : need(options.metricsAddress),
    healthProbeAddress: role === 'daemon' ? daemonAddress : need(options.healthProbeAddress),
    leaderElection: {
      enabled: need(options.leaderElection),
      namespace: read(options.leaderNamespace) ?? podNamespace,
      id: need(options.leaderId),
      leaseDurationSeconds: need(options.leaseDuration),
      renewDeadlineSeconds: need(options.renewDeadline),
      retryPeriodSeconds: need(options.retryPeriod),
    },
    kubeQps: qps,
    kubeBurst: need(options.kubeBurst) || 2 * qps,
    logLevel: need(options.logLevel),
    webhook: {
      ...optional('host', read(options.webhookHost)),
      port: need(options.webhookPort),
      secretName: need(options.secretName),
      serviceName: need(options.serviceName),
      ...optional('clientCaFile', read(options.clientCa) || undefined),
      renewBeforeSeconds: need(options.renewBefore),
      certificateLifetimeSeconds: need(options.certLifetime),
      initializeTimeoutSeconds: need(options.initializeTimeout),
    },
    daemon: {
      nodeName: role === 'daemon' ? need(options.nodeName) : '',
      socketLocation: need(options.socketLocation),
      socketFile: need(options.socketFile),
      pullsAtOnce: pullsAtOnce(need(options.pullWorkers)),
      credentials: {
        pluginConfig: pluginConfig(read(options.kubeletPluginConfigFile), need(options.pluginConfigFile)),
        pluginFolder: read(options.kubeletPluginFolder) ?? need(options.pluginFolder),
        pluginEnvironment: env,
        ...optional('dockerConfigFile', read(options.dockerConfigFile)),
      },
      address: daemonAddress,
    },
    images: {
      nodeImageDelaySeconds: need(options.nodeImageDelay),
      tagTtlSeconds: need(options.imageTagTtl),
      secretNamespace: need(options.daemonConfigNamespace),
    },
    fullPassSeconds: need(options.fullPass),
    heartbeatSeconds: need(options.heartbeat),
    engineSilentSeconds: need(options.engineSilent),
    manageWorkerDeployment: need(options.manageWorkerDeployment),
    engineStuckSeconds: need(options.engineStuck),
    ignoredFlags: Object.keys(flags).filter((flag) => !optionsOf(role).some((option) => option.flag === flag)),
  };
  refuseContradictions(config);
  return config;
}

/** There is a limit even if none was given: eight parallel pulls use registry and disk as well as eighty. */
function pullsAtOnce(given: number): number {
  return given > 0 ? given : 8;
}

/** The file at the default path may be missing; one that was given explicitly must exist. */
function pluginConfig(asKubelet: string | undefined, given: string): NodeCredentialsConfig['pluginConfig'] {
  const file = asKubelet ?? given;
  return { file, mustExist: file !== options.pluginConfigFile.default };
}

/** The options that a role uses, in the order of `--help`. */
function optionsOf(role: Role): readonly Option<unknown>[] {
  const all: readonly Option<unknown>[] = Object.values(options);
  return all.filter((option) => option.roles.includes(role));
}

function readFlags(role: Role, argv: readonly string[]): Readonly<Record<string, string>> {
  const flags: Record<string, string> = {};
  const command = new Command(`windlass ${role}`)
    .exitOverride()
    .configureOutput({ writeOut: () => undefined, writeErr: () => undefined })
    .allowExcessArguments(false)
    .helpOption('-h, --help')
    .configureHelp({ formatHelp: () => helpText(role) });
  for (const { flag } of Object.values(options)) command.option(`--${flag} [value]`);
  for (const flag of ignoredFlags) command.option(`--${flag} [value]`);

  try {
    command.parse(argv, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.code === 'commander.helpDisplayed') throw new HelpRequested(helpText(role));
    throw new ConfigError(`${error.message.replace(/^error: /, '').replaceAll('\n', ' ')}; see --help`);
  }
  for (const option of command.options) {
    const value: unknown = command.getOptionValue(option.attributeName());
    // A bare `--enable-leader-election` means true, as with Kubernetes' flags.
    if (value !== undefined && option.long) flags[option.long.slice(2)] = String(value);
  }
  return flags;
}

function textOf(
  option: Option<unknown>,
  flags: Readonly<Record<string, string>>,
  env: NodeJS.ProcessEnv,
): { readonly text: string; readonly source: string } | undefined {
  const flag = flags[option.flag];
  if (flag !== undefined) return { text: flag, source: `--${option.flag}` };
  for (const name of environmentOf(option)) {
    const text = env[name];
    // In a manifest, a variable with the value "" means that it is not set.
    if (text !== undefined && text !== '') return { text, source: name };
  }
  return undefined;
}

function inCluster(host: string | undefined, port: number): Config['inCluster'] {
  return host === undefined ? undefined : { host, port };
}

function featureGates(text: string, env: NodeJS.ProcessEnv): FeatureGates {
  try {
    return parseFeatureGates(text, env.CUSTOM_RESOURCE_ENABLE);
  } catch (error) {
    throw new ConfigError(`--feature-gates: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function temporalTls(read: <Value>(option: Option<Value>) => Value | undefined): TemporalPlace['tls'] | undefined {
  const tls = {
    ...optional('caFile', read(options.temporalTlsCaFile)),
    ...optional('certFile', read(options.temporalTlsCertFile)),
    ...optional('keyFile', read(options.temporalTlsKeyFile)),
    ...optional('serverName', read(options.temporalTlsServerName)),
  };
  return read(options.temporalTls) || Object.keys(tls).length > 0 ? tls : undefined;
}

function refuseContradictions({ leaderElection, webhook, temporal }: Config): void {
  const { leaseDurationSeconds: lease, renewDeadlineSeconds: renew, retryPeriodSeconds: retry } = leaderElection;
  if (!Number.isInteger(lease)) {
    throw refusal('--leader-election-lease-duration', `${lease}s`, 'that is an integer number of seconds');
  }
  if (renew >= lease) {
    const limit = `shorter than --leader-election-lease-duration (${lease}s)`;
    throw refusal('--leader-election-renew-deadline', `${renew}s`, limit);
  }
  if (2 * retry > renew) {
    const limit = `of at most half of --leader-election-renew-deadline (${renew}s)`;
    throw refusal('--leader-election-retry-period', `${retry}s`, limit);
  }
  if (webhook.renewBeforeSeconds >= webhook.certificateLifetimeSeconds) {
    const lifetime = `--webhook-certs-lifetime (${webhook.certificateLifetimeSeconds}s)`;
    throw refusal('--webhook-certs-renew-before', `${webhook.renewBeforeSeconds}s`, `shorter than ${lifetime}`);
  }
  if ((temporal.tls?.certFile === undefined) !== (temporal.tls?.keyFile === undefined)) {
    throw new ConfigError('--temporal-tls-cert-file and --temporal-tls-key-file: one was given without the other');
  }
}

function refusal(source: string, text: string, expects: string): ConfigError {
  return new ConfigError(
    `${source}="${text}": ${expects.startsWith('expects') ? expects : `expects a value ${expects}`}`,
  );
}

/** `{ key: value }`, or `{}` when the value is undefined, so that an absent option leaves no key. */
function optional<Key extends string, Value>(key: Key, value: Value | undefined): { [K in Key]?: Value } {
  return value === undefined ? {} : ({ [key]: value } as { [K in Key]: Value });
}

function helpText(role: Role): string {
  const rows = optionsOf(role).map((option) => {
    const byDefault = option.default ? ` [${option.default}]` : '';
    return [
      `  --${option.flag}`,
      `${option.description}${byDefault}`,
      `${option.expects}; ${environmentOf(option).join(', ')}`,
    ];
  });
  const width = Math.max(...rows.map(([flag]) => flag?.length ?? 0)) + 2;
  const lines = rows.flatMap(([flag = '', does, form]) => [
    `${flag.padEnd(width)}${does}`,
    `${' '.repeat(width)}  ${form}`,
  ]);
  const ignored = `Flags of OpenKruise that have no effect here are accepted and logged: ${ignoredFlags.join(' ')}`;
  return [`windlass ${role}: options, with [default] and environment`, '', ...lines, '', ignored, ''].join('\n');
}
