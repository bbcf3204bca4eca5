"""Dependent raters: find their groups, and fuse labels through the groups' hidden verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from bayesfuse.errors import MomentsError
from bayesfuse.moments.completion import least_squares, orient
from bayesfuse.moments.imbalance import EDGE, log_table, quality
from bayesfuse.moments.binary import accuracies
from bayesfuse.moments.pairs import Array, covariance, require_binary
from bayesfuse.moments.partition import Groups, find_groups, number, score_matrix
from bayesfuse.responses import Responses

__all__ = ["find_groups", "latent_sml", "score_matrix", "select_raters"]


@dataclass(frozen=True)
class Source:
    """How well some raters report a hidden ±1 variable, and how common it is."""
    sensitivity: Array
    specificity: Array
    prevalence: float
    determined: bool


def source_of(responses):
    try:
        found = accuracies(responses)
    except MomentsError:
        return symmetric_source(responses)
    if not np.isfinite(found.sensitivity.values).any(): return symmetric_source(responses)
    return Source(found.sensitivity.values, found.specificity.values, found.attrs["prevalence"], True)


def symmetric_source(responses):
    moments = covariance(responses)
    q = np.nan_to_num(moments.covariance.values)
    weight = moments.overlap.values.astype(float); np.fill_diagonal(weight,0)
    v = orient(least_squares(q, weight))
    mean = np.nan_to_num(moments["mean"].values)
    m, s = float((np.sign(v)*mean).mean()), float(np.abs(v).mean())
    b = m/np.hypot(m,s) if s>0 else 0.
    prevalence=(1+np.clip(b,-1+EDGE,1-EDGE))/2
    return Source(*np.clip(quality(mean,v,prevalence),0,1), prevalence, False)

def split(responses, group):
    own=group[responses.rater]; order=np.argsort(own,kind="stable")
    bounds=np.searchsorted(own[order],np.arange(group.max()+2))
    item=responses.item[order]; cell=responses.cell[order].astype(np.int64)
    for g in range(group.max()+1):
        rows=slice(bounds[g],bounds[g+1])
        members=np.flatnonzero(group==g)
        place=np.searchsorted(members, cell[rows]//2)
        start=np.searchsorted(item[rows],np.arange(responses.n_items+1))
        yield Responses(responses.items,responses.raters[members],responses.classes,start.astype(np.uint32),(2*place+cell[rows]%2).astype(np.uint32),responses.multiplicity)

def likelihood(responses, source):
    t=log_table(source.sensitivity,source.specificity)
    out=np.zeros((responses.n_items,2))
    for k in range(2): out[:,k]=np.bincount(responses.item,t[responses.cell,k],responses.n_items)
    return out

def latent_sml(responses, groups, correct=True, soft=True, prior=False):
    group=np.asarray(groups); G=group.max()+1
    subs=list(split(responses,group)); srcs=[]; liks=[]
    rows=[];conf=[]
    for g,sub in enumerate(subs):
        if sub.n_raters==1:
            srcs.append(None); liks.append(None); conf.append((1.,1.))
            rows.append((sub.item, np.full(sub.n_responses,g), sub.label)); continue
        src=source_of(sub); lik=likelihood(sub,src); srcs.append(src); liks.append(lik)
        post=lik+np.log([1-src.prevalence,src.prevalence]); 
        p=1/(1+np.exp(post[:,0]-post[:,1])); hard=(p>.5).astype(int)
        ans=np.flatnonzero(sub.per_item>0); w=sub.multiplicity[ans]
        s=(w*p[ans]*hard[ans]).sum()/(w*p[ans]).sum(); t=(w*(1-p[ans])*(1-hard[ans])).sum()/(w*(1-p[ans])).sum()
        conf.append((s,t)); rows.append((ans,np.full(len(ans),g),hard[ans]))
    item,rater,label=(np.concatenate(x) for x in zip(*rows))
    verdict=Responses._build(item,rater,label,responses.items,np.arange(G),responses.classes,responses.multiplicity)
    top=source_of(verdict)
    se,sp=top.sensitivity.copy(),top.specificity.copy()
    score=np.zeros(responses.n_items)
    rse=np.empty(responses.n_raters); rsp=np.empty(responses.n_raters)
    for g,(sub,src,lik,(s,t)) in enumerate(zip(subs,srcs,liks,conf)):
        members=np.flatnonzero(group==g)
        if src is None:
            tb=log_table(se[g:g+1],sp[g:g+1]); score+=np.bincount(sub.item,(tb[:,1]-tb[:,0])[sub.cell],responses.n_items)
            rse[members],rsp[members]=se[g],sp[g]; continue
        if soft:
            a,b=se[g],sp[g]
            if correct:
                d=s+t-1
                a,b=np.clip([(a-(1-t))/d,(b-(1-s))/d],1e-3,1-1e-3)
            else: a,b=np.clip([a,b],1e-3,1-1e-3)
            score+=np.logaddexp(np.log(a)+lik[:,1],np.log(1-a)+lik[:,0])-np.logaddexp(np.log(b)+lik[:,0],np.log(1-b)+lik[:,1])
            se[g],sp[g]=a,b
        else:
            tb=log_table(se[g:g+1],sp[g:g+1]); l=tb[:,1]-tb[:,0]
            hard=np.where(sub.per_item>0,np.where(lik[:,1]+np.log(src.prevalence)>lik[:,0]+np.log(1-src.prevalence),l[1],l[0]),0)
            score+=hard
        rse[members]=se[g]*src.sensitivity+(1-se[g])*(1-src.specificity)
        rsp[members]=sp[g]*src.specificity+(1-sp[g])*(1-src.sensitivity)
    return score>0,rse,rsp,top,se,sp,[x.determined if x else None for x in srcs]
